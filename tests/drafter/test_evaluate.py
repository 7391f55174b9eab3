"""Counts are what the definitions say, checked row by row against loops that were written from the definitions."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from hsforensics.drafter.evaluate import count_steps, draft_choices, score_sequence
from hsforensics.drafter.labels import NO_LABEL, Labels, target_labels
from tests.drafter.makers import make_spec, make_weights
from tests.world import HIDDEN, VOCAB

STEPS = 3


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Tensor], Labels, Tensor | None]:
    T = draw(st.integers(STEPS + 1, 25))
    few = st.integers(0, 2)
    tokens = st.lists(few, min_size=T, max_size=T)
    mask = draw(st.one_of(st.none(), st.lists(st.integers(0, 1), min_size=T, max_size=T)))
    proposals = [torch.tensor(draw(st.lists(few, min_size=T - k, max_size=T - k))) for k in range(1, STEPS + 1)]
    labels = Labels(torch.tensor(draw(tokens)), torch.tensor(draw(tokens)))
    return proposals, labels, None if mask is None else torch.tensor(mask)


@given(case=cases())
def test_counts_follow_their_definitions(case: tuple[list[Tensor], Labels, Tensor | None]) -> None:
    proposals, labels, mask = case
    T = len(labels.full)
    keep = [1] * T if mask is None else mask.tolist()

    def chain_right(t: int, upto: int) -> bool:
        return all(int(proposals[j - 1][t]) == int(labels.draft[t + j]) for j in range(1, upto + 1))

    for k, found in enumerate(count_steps(proposals, labels, mask), start=1):
        rows = range(T - k)
        hits = [t for t in rows if int(proposals[k - 1][t]) == int(labels.full[t + k])]
        draft_hits = [t for t in rows if int(proposals[k - 1][t]) == int(labels.draft[t + k])]
        kept = [t for t in rows if keep[t + k]]
        right = [t for t in kept if keep[t + 1] and chain_right(t, k)]
        before = [t for t in rows if keep[t + 1] and chain_right(t, k - 1)]
        assert found.accuracy == (len(hits), T - k)
        assert found.draft_vocab == (len(draft_hits), T - k)
        assert found.masked == (None if mask is None else (len(set(hits) & set(kept)), len(kept)))
        assert found.full_acc == (len(right), len(kept))
        assert found.cond_acc == (len(right), len(before))


@pytest.fixture(scope="module")
def material() -> tuple[Tensor, Tensor, Tensor]:
    """Embedding [V, H], tokens [T], channels [T, 3 H]."""
    generator = torch.Generator().manual_seed(5)
    tokens = torch.randint(0, VOCAB, (40,), generator=generator)
    return torch.randn(VOCAB, HIDDEN, generator=generator), tokens, torch.randn(40, 3 * HIDDEN, generator=generator)


def agreeing_labels(proposals: list[Tensor], T: int) -> Labels:
    """Labels that step 1 always hits."""
    full = torch.zeros(T, dtype=torch.long)
    full[1:] = proposals[0]
    return Labels(full, full)


def test_nan_in_a_channel_is_counted_wrong_from_there_on(material: tuple[Tensor, Tensor, Tensor]) -> None:
    embedding, tokens, aux = material
    weights = make_weights(make_spec(), embedding)
    labels = agreeing_labels(draft_choices(weights, tokens, aux, STEPS, "text"), 40)
    assert score_sequence(weights, tokens, aux, labels, STEPS).steps[0].accuracy == (39, 39)
    broken = aux.clone()
    broken[10, 7] = torch.inf
    score = score_sequence(weights, tokens, broken, labels, STEPS)
    assert score.steps[0].accuracy == (10, 39)
    assert score.broken == 29


def test_nan_in_the_targets_state_is_counted_wrong_in_that_row_alone(material: tuple[Tensor, Tensor, Tensor]) -> None:
    embedding, tokens, aux = material
    weights = make_weights(make_spec(), embedding)
    proposals = draft_choices(weights, tokens, aux, STEPS, "text")
    labels = agreeing_labels(proposals, 40)
    labels.full[10] = labels.draft[10] = NO_LABEL
    score = score_sequence(weights, tokens, aux, labels, STEPS)
    assert score.steps[0].accuracy == (38, 39)
    assert score.broken == 1


def test_labels_of_rows_that_are_not_finite_match_nothing() -> None:
    states = torch.eye(4)
    states[2, 1] = torch.nan
    labels = target_labels(states, torch.eye(4), torch.tensor([1, 3]))
    assert labels.full.tolist() == [0, 1, NO_LABEL, 3]
    assert labels.draft[[1, 3]].tolist() == [1, 3]
    assert int(labels.draft[2]) == NO_LABEL


def test_draft_labels_are_the_best_of_the_draft_vocabulary() -> None:
    generator = torch.Generator().manual_seed(0)
    states, head = torch.randn(50, 8, generator=generator), torch.randn(20, 8, generator=generator)
    ids = torch.tensor([2, 3, 5, 7, 11])
    logits = states @ head.T
    expected = [max(ids.tolist(), key=lambda i, row=row: float(row[i])) for row in logits]
    labels = target_labels(states.bfloat16().float(), head, ids)
    assert target_labels(states, head, ids).draft.tolist() == expected
    assert torch.equal(labels.full, (states.bfloat16().float() @ head.T).argmax(1))


@pytest.mark.parametrize("T", [2, 3])
def test_a_sequence_shorter_than_the_chain_fills_the_steps_that_it_has(
    T: int, material: tuple[Tensor, Tensor, Tensor]
) -> None:
    embedding, tokens, aux = material
    weights = make_weights(make_spec(), embedding)
    labels = Labels(torch.zeros(T, dtype=torch.long), torch.zeros(T, dtype=torch.long))
    score = score_sequence(weights, tokens[:T], aux[:T], labels, STEPS)
    assert [step.accuracy[1] for step in score.steps] == [max(0, T - k) for k in range(1, STEPS + 1)]


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (1, 2, 0)])
@pytest.mark.parametrize("fc_norm", [False, True])
def test_permuting_channels_and_column_blocks_together_changes_no_proposal(
    order: tuple[int, ...], fc_norm: bool, material: tuple[Tensor, Tensor, Tensor]
) -> None:
    from dataclasses import replace

    embedding, tokens, aux = material
    weights = make_weights(make_spec(fc_norm=fc_norm), embedding)
    blocks, parts = weights.fc.chunk(3, dim=1), aux.chunk(3, dim=1)
    norms = tuple(weights.fc_norms[i] for i in order) if fc_norm else ()
    moved = replace(weights, fc=torch.cat([blocks[i] for i in order], dim=1), fc_norms=norms)
    right = draft_choices(weights, tokens, aux, STEPS, "text")
    both = draft_choices(moved, tokens, torch.cat([parts[i] for i in order], dim=1), STEPS, "text")
    only_weights = draft_choices(moved, tokens, aux, STEPS, "text")
    assert all(torch.equal(a, b) for a, b in zip(right, both, strict=True))
    assert not torch.equal(right[0], only_weights[0])
