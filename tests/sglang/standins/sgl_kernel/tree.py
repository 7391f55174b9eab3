"""The tree of draft tokens: built from the drafter's picks, then walked with the target's choices."""

import torch


def build_tree_kernel_efficient_cpu(
    parent_list,
    selected_index,
    verified_seq_len,
    tree_mask,
    positions,
    retrieve_index,
    retrieve_next_token,
    retrieve_next_sibling,
    topk,
    depth,
    draft_token_num,
    tree_mask_mode,
):
    """Fill the links, the positions and the attention mask of each request's tree.

    Slot 0 is the verified token; slot i > 0 is pick ``selected_index[i - 1]``, whose group of ``topk`` siblings names
    its parent's pick. The mask has one square for each request: a slot sees itself and its ancestors.
    """
    if int(tree_mask_mode) != 1:
        raise NotImplementedError("only the mask without the prompt, which SGLang uses on the CPU")
    size, count = draft_token_num, len(verified_seq_len)
    masks = tree_mask[: count * size * size].view(count, size, size)
    for index in range(count):
        parents = _parents(selected_index[index].tolist(), parent_list[index].tolist(), topk)
        retrieve_index[index] = torch.arange(size) + index * size
        _link(parents, retrieve_next_token[index], retrieve_next_sibling[index])
        seen = _ancestry(parents)
        masks[index] = seen
        positions[index * size : (index + 1) * size] = verified_seq_len[index] + seen.sum(1) - 1


def _parents(picks, groups, topk):
    """Parent slot of every slot but the root's; groups[0] belongs to the root."""
    slot_of = {pick: slot for slot, pick in enumerate(picks, start=1)}
    return [0 if pick < topk else slot_of[groups[pick // topk]] for pick in picks]


def _link(parents, next_token, next_sibling):
    """Children as a chain of siblings, in the order of their slots."""
    last = {}
    for slot, parent in enumerate(parents, start=1):
        (next_sibling if parent in last else next_token)[last.get(parent, parent)] = slot
        last[parent] = slot


def _ancestry(parents):
    """[size, size] bool: the slots from each slot up to the root."""
    seen = torch.eye(len(parents) + 1, dtype=torch.bool)
    for slot, parent in enumerate(parents, start=1):
        seen[slot] |= seen[parent]  # parents come before their children
    return seen


def verify_tree_greedy_cpu(
    predicts,
    accept_index,
    accept_token_num,
    candidates,
    retrive_index,
    retrive_next_token,
    retrive_next_sibling,
    target_predict,
):
    """From the root, follow the child that the target chose, as long as there is one."""
    chosen = target_predict.flatten()
    for index in range(len(candidates)):
        slot, path = 0, []
        while slot != -1 and len(path) < accept_index.shape[1]:
            row = int(retrive_index[index, slot])
            predicts[row] = chosen[row]
            accept_index[index, len(path)] = row
            path.append(slot)
            slot = int(retrive_next_token[index, slot])
            while slot != -1 and candidates[index, slot] != chosen[row]:
                slot = int(retrive_next_sibling[index, slot])
        accept_token_num[index] = len(path) - 1
