"""The walk is serving's: stretches of the target's own text, one verify step after the other."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from hsforensics.drafter.accept import Walk, walk


def as_proposals(rows: list[list[int]], steps: int) -> list[Tensor]:
    """Row-wise proposals (row t: K tokens) as the K tensors [T - k] that the drafter gives."""
    T = len(rows)
    return [torch.tensor([rows[t][k - 1] for t in range(T - k)], dtype=torch.long) for k in range(1, steps + 1)]


def brute_force(rows: list[list[int]], labels: list[int], tokens: list[int], steps: int) -> tuple[int, int]:
    """Serving, one row at a time: a walk starts where the text becomes the target's own, and ends where it stops."""
    emitted = verify_steps = 0
    own = [labels[t] == tokens[t + 1] for t in range(len(tokens) - 1)]
    t, running = 0, False
    while t < len(own):
        if not running and (not own[t] or (t > 0 and own[t - 1])):
            t += 1
            continue
        if not all(t + j < len(own) and own[t + j] for j in range(steps)):
            running = False
            t += 1
            continue
        running, run = True, 0
        while run < steps and rows[t][run] == labels[t + run + 1]:
            run += 1
        emitted, verify_steps = emitted + run + 1, verify_steps + 1
        broken = not all(own[t : t + run + 1])
        t += run + 1
        running = not broken and t < len(own) and own[t]
    return emitted, verify_steps


@given(data=st.data(), T=st.integers(2, 30), steps=st.integers(1, 4))
def test_the_walk_equals_a_row_by_row_simulation(data: st.DataObject, T: int, steps: int) -> None:
    tokens = data.draw(st.lists(st.integers(0, 2), min_size=T, max_size=T))
    own = data.draw(st.lists(st.sampled_from([True, True, True, False]), min_size=T, max_size=T))
    labels = [tokens[t + 1] if t + 1 < T and own[t] else 3 for t in range(T)]
    rows = [
        [data.draw(st.integers(0, 1)) and labels[t + k] if t + k < T else 0 for k in range(1, steps + 1)]
        for t in range(T)
    ]
    found = walk(as_proposals(rows, steps), torch.tensor(labels), torch.tensor(tokens))
    assert (found.emitted, found.verify_steps) == brute_force(rows, labels, tokens, steps)
    assert found.rows == T - 1
    assert found.own == sum(labels[t] == tokens[t + 1] for t in range(T - 1))


def walked(proposals: list[list[int]], labels: list[int], tokens: list[int]) -> Walk:
    return walk([torch.tensor(x, dtype=torch.long) for x in proposals], torch.tensor(labels), torch.tensor(tokens))


def test_a_perfect_drafter_emits_k_plus_one() -> None:
    tokens = list(range(13))
    labels = list(range(1, 14))
    found = walked([labels[k:] for k in (1, 2)], labels, tokens)
    assert found == Walk(emitted=12, verify_steps=4, own=12, rows=12)  # rows 0, 3, 6, 9


def test_a_drafter_that_is_always_wrong_emits_the_bonus_token_alone() -> None:
    tokens, labels = list(range(13)), list(range(1, 14))
    found = walked([[-1] * 12, [-1] * 11], labels, tokens)
    assert found == Walk(emitted=11, verify_steps=11, own=12, rows=12)  # row 11 has no second step to judge


def test_a_later_step_counts_only_after_the_earlier_ones() -> None:
    tokens, labels = list(range(8)), list(range(1, 9))
    found = walked([[-1] * 7, labels[2:]], labels, tokens)
    assert found.emitted == found.verify_steps


def test_text_of_another_writer_is_never_walked() -> None:
    tokens = list(range(8))
    found = walked([[5] * 7], [9] * 8, tokens)
    assert found == Walk(emitted=0, verify_steps=0, own=0, rows=7)


def test_a_loss_mask_limits_whose_text_is_counted_and_never_the_walk() -> None:
    """The prompt, tokens 0 to 3, is somebody else's; the target wrote tokens 4 to 9."""
    tokens, labels = [9, 9, 9, 9, *range(6)], [5, 5, 5, 0, 1, 2, 3, 4, 5, 6]
    proposals = [torch.tensor(labels[k:]) for k in (1, 2)]
    mask = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 1, 1])
    whole, masked = (walk(proposals, torch.tensor(labels), torch.tensor(tokens), m) for m in (None, mask))
    assert (whole.own, whole.rows) == (6, 9)
    assert (masked.own, masked.rows) == (6, 6)
    assert (masked.emitted, masked.verify_steps) == (whole.emitted, whole.verify_steps)
    assert masked.verify_steps > 0


@given(data=st.data(), T=st.integers(2, 20))
def test_masked_rows_are_those_whose_next_token_is_unmasked(data: st.DataObject, T: int) -> None:
    def draw(high: int) -> list[int]:
        return data.draw(st.lists(st.integers(0, high), min_size=T, max_size=T))

    labels, tokens, mask = draw(2), draw(2), draw(1)
    found = walk([torch.zeros(T - 1)], torch.tensor(labels), torch.tensor(tokens), torch.tensor(mask))
    rows = [t for t in range(T - 1) if mask[t + 1]]
    assert (found.own, found.rows) == (sum(labels[t] == tokens[t + 1] for t in rows), len(rows))
