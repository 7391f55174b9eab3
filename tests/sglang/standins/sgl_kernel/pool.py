"""Bookkeeping of the token pool: which cache row holds which token of which request."""

import ctypes
from itertools import pairwise

import torch


def _runs(lengths):
    """Start and stop of consecutive runs with these lengths."""
    return pairwise([0, *torch.as_tensor(lengths).cumsum(0).tolist()])


def assign_req_to_token_pool_cpu(req_pool_indices, req_to_token, start, end, out_cache_loc, pool_len):
    """Write the new cache rows of each request into its line of the pool, from ``start`` to ``end``."""
    for index, (first, last) in enumerate(_runs(end - start)):
        line = req_to_token[req_pool_indices[index]]
        line[start[index] : end[index]] = out_cache_loc[first:last].to(line.dtype)


def assign_extend_cache_locs_cpu(req_pool_indices, req_to_token, start, end, out_cache_loc, pool_len):
    """The other way: read the cache rows of each request out of its line, packed one after the other."""
    for index, (first, last) in enumerate(_runs(end - start)):
        out_cache_loc[first:last] = req_to_token[req_pool_indices[index]][start[index] : end[index]]


def assign_draft_cache_locs_contiguous_cpu(
    req_pool_indices, req_to_token, seq_lens, out_cache_loc, pool_len, topk, num_steps
):
    """Cache rows for drafting: the ``topk * num_steps`` that follow each request's tokens."""
    rows = out_cache_loc.view(-1, topk * num_steps)
    for index, length in enumerate(seq_lens.tolist()):
        rows[index] = req_to_token[req_pool_indices[index], length : length + topk * num_steps]


def copy_all_layer_kv_cache_cpu(data_ptrs, strides, tgt_loc, src_loc):
    """Move rows of every layer's cache; all sources are read before a target is written."""
    for base, stride in zip(data_ptrs.tolist(), strides.tolist(), strict=True):
        rows = [ctypes.string_at(base + source * stride, stride) for source in src_loc.tolist()]
        for target, row in zip(tgt_loc.tolist(), rows, strict=True):
            ctypes.memmove(base + target * stride, row, stride)


def fill_bonus_tokens_cpu(accept_tokens, accept_lens, bonus_tokens, accept_stride):
    """The last accepted token of each request, which is the target's own."""
    lines = accept_tokens.view(-1, accept_stride)
    bonus_tokens.copy_(lines.gather(1, accept_lens.long()[:, None] - 1)[:, 0])


def fill_accept_out_cache_loc_cpu(accept_index, out_cache_loc, accept_out_cache_loc):
    """Cache rows of the accepted draft tokens, packed; -1 marks a rejected one."""
    accepted = accept_index[accept_index >= 0].long()
    accept_out_cache_loc[: len(accepted)] = out_cache_loc[accepted]


def build_draft_decode_metadata_cpu(req_to_token, req_pool_indices, seq_lens, topk, num_steps, pool_len):
    """For each branch of each request, the cache rows of its tokens and then of its own drafts."""
    tables = []
    for line, length in zip(req_to_token[req_pool_indices.long()], seq_lens.tolist(), strict=True):
        for branch in range(topk):
            own = line[length + branch * num_steps : length + (branch + 1) * num_steps]
            used = torch.cat([line[:length], own])
            tables.append(torch.nn.functional.pad(used, (0, pool_len - len(used))))
    return torch.stack(tables)


def rotate_input_ids_cpu(*_args):
    """Only drafters with several layers of their own in turn need it, and no test has one."""
    raise NotImplementedError("multi-layer drafters are not covered by these stand-ins")
