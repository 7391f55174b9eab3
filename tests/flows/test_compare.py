"""``compare`` on real files, with the incident's faults injected."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hsforensics.errors import HsfError
from hsforensics.flows.compare import compare
from hsforensics.results import CompareResult
from hsforensics.states import POSTNORM, State
from tests.world import LAYERS, make_world, write_bank, write_dump, write_target

TRUTH: tuple[State, ...] = (3, 6, 9, POSTNORM)
BELIEVED = (-1, 2, 5, 8)  # output-of-layer ids: embedding, state 3, state 6, state 9


def codes(result: CompareResult) -> list[str]:
    return [item.code for item in result.findings]


def labels_of(result: CompareResult, code: str) -> list[str]:
    return [item.where for item in result.findings if item.code == code]


def test_the_targets_files_alone_refute_the_embedding_label(tmp_path: Path) -> None:
    """The incident would have ended here."""
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", TRUTH, BELIEVED)
    result = compare(dump, target=write_target(world, tmp_path / "target"))
    assert (result.verdict, result.tier, result.trained_wiring) == ("undecided", "files", None)
    assert labels_of(result, "channel-mislabelled") == ["hidden_states[0]", "hidden_states[3]"]
    remedies = {item.where: item.remedy for item in result.findings if item.code == "channel-mislabelled"}
    assert "A bank" in remedies["hidden_states[0]"]  # nobody knows yet what it is
    assert "use the state that compare names" in remedies["hidden_states[3]"]
    assert [item.status for item in result.channels] == ["mismatched", "ambiguous", "ambiguous", "mismatched"]
    assert result.channels[3].state == POSTNORM
    assert "target-postnorm" in codes(result)
    assert "bank-needed" in codes(result)


def test_the_targets_files_alone_confirm_a_true_embedding(tmp_path: Path) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", (0, 3, 6, POSTNORM), BELIEVED)
    result = compare(dump, target=write_target(world, tmp_path / "target"))
    assert (result.channels[0].identity, result.channels[0].state, result.channels[0].status) == ("exact", 0, "matched")
    assert labels_of(result, "channel-mislabelled") == ["hidden_states[3]"]


def test_a_bank_names_every_channel_and_refutes_every_shifted_label(tmp_path: Path) -> None:
    world = make_world(dtype=torch.bfloat16)
    dump = write_dump(world, tmp_path / "dump", TRUTH, BELIEVED)
    bank = write_bank(world, tmp_path / "bank", noise=0.01)
    result = compare(dump, bank)
    assert (result.verdict, result.tier) == ("undecided", "bank")
    assert result.trained_wiring == (3, 6, 9)
    assert result.served_wiring is None
    assert [(item.claim, item.state, item.status) for item in result.channels] == [
        (0, 3, "mismatched"),
        (3, 6, "mismatched"),
        (6, 9, "mismatched"),
        (9, POSTNORM, "mismatched"),
    ]
    assert len(labels_of(result, "channel-mislabelled")) == 4
    assert "served-unknown" in codes(result)
    first = result.channels[0]
    assert len(first.values) == len(first.reference) == 5
    assert first.distance == pytest.approx(0.01, rel=0.2)
    assert first.runner_up is not None
    assert first.runner_up > 0.2


def test_true_labels_are_matched(tmp_path: Path) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", (3, 6, 9, LAYERS), (2, 5, 8, LAYERS - 1))
    result = compare(dump, write_bank(world, tmp_path / "bank"))
    assert {item.status for item in result.channels} == {"matched"}
    assert {item.identity for item in result.channels} == {"exact"}
    assert "channel-mislabelled" not in codes(result)
    assert "target-prenorm" in codes(result)


@pytest.mark.parametrize(
    ("served", "verdict", "code", "offsets"),
    [
        ((3, 6, 9), "aligned", "wiring-right", (0, 0, 0)),
        ((0, 3, 6), "misaligned", "offset-uniform", (-3, -3, -3)),
        ((4, 7, 10), "misaligned", "offset-uniform", (1, 1, 1)),
        ((2, 6, 9), "misaligned", "offset-mixed", (-1, 0, 0)),
        ((6, 3, 9), "misaligned", "channel-order", (3, -3, 0)),
        ((3, 6), "misaligned", "channel-count", None),
    ],
)
def test_a_live_capture_decides(
    tmp_path: Path, served: tuple[State, ...], verdict: str, code: str, offsets: tuple[int, ...] | None
) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", TRUTH, noise=0.01)
    result = compare(dump, write_bank(world, tmp_path / "live", served=served))
    assert (result.verdict, result.tier, result.served_wiring) == (verdict, "live", served)
    assert result.offsets == offsets
    assert code in codes(result)
    assert len(result.channels) == 4 + len(served)
    expected = {"aligned": {"matched"}, "misaligned": {"matched", "mismatched"}}[verdict]
    assert {item.status for item in result.channels if item.against == "counterpart"} <= expected


def test_a_truncated_capture_still_pairs_by_prefix(tmp_path: Path) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    result = compare(dump, write_bank(world, tmp_path / "bank", rows=20))
    assert (result.trained_wiring, result.tokens, result.sequences) == ((3, 6, 9), 60, 3)


def test_samples_without_a_request_are_a_finding_and_none_at_all_is_refused(tmp_path: Path) -> None:
    world, other = make_world(), make_world(seed=1)
    bank = write_bank(world, tmp_path / "bank")
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    stranger = write_dump(other, tmp_path / "other", TRUTH)
    (stranger / "data_0.pt").rename(dump / "data_3.pt")
    result = compare(dump, bank)
    assert (result.trained_wiring, result.sequences) == ((3, 6, 9), 3)
    assert labels_of(result, "tokens-unmatched") == ["data_3.pt"]
    with pytest.raises(HsfError, match="capture these dumps") as refused:
        compare(stranger, bank)
    assert (refused.value.code, refused.value.exit_code) == ("nothing-compared", 3)


def test_a_nan_row_is_an_error_finding_and_the_rest_is_still_compared(tmp_path: Path) -> None:
    world = make_world()
    world.banks[0][6][5, 2] = float("nan")
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    world.banks[0][6][5, 2] = 0.0
    result = compare(dump, write_bank(world, tmp_path / "live", served=(3, 6, 9)))
    (broken,) = (item for item in result.findings if item.code == "channel-unreadable")
    assert broken.severity == "error"
    assert broken.where == "data_0.pt, hidden_states[1]"
    assert "row 5" in broken.message
    assert result.trained_wiring == (3, 6, 9)


def test_a_channel_of_nan_is_unreadable_and_never_aligned(tmp_path: Path) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    for file in dump.glob("*.pt"):
        sample = torch.load(file, weights_only=True)
        sample["hidden_states"][1].fill_(float("nan"))
        torch.save(sample, file)
    result = compare(dump, write_bank(world, tmp_path / "live", served=(3, 6, 9)))
    assert result.verdict == "undecided"
    assert (result.channels[1].identity, result.channels[1].status) == ("unreadable", "unreadable")
    assert result.trained_wiring == (3, None, 9)


def test_a_torn_file_is_a_finding_and_the_others_are_compared(tmp_path: Path) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    torn = dump / "data_1.pt"
    torn.write_bytes(torn.read_bytes()[:-300])
    result = compare(dump, write_bank(world, tmp_path / "bank"))
    assert (result.trained_wiring, result.sequences) == ((3, 6, 9), 2)
    assert "file-unreadable" in codes(result)


def test_nothing_readable_is_refused(tmp_path: Path) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    for file in dump.glob("*.pt"):
        file.write_bytes(b"")
    with pytest.raises(HsfError) as refused:
        compare(dump, write_bank(world, tmp_path / "bank"))
    assert refused.value.exit_code == 3


def test_rows_that_do_not_fit_the_tokens_are_unreadable(tmp_path: Path) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    for file in dump.glob("*.pt"):
        sample = torch.load(file, weights_only=True)
        sample["hidden_states"][2] = sample["hidden_states"][2][1:]
        torch.save(sample, file)
    result = compare(dump, write_bank(world, tmp_path / "bank"))
    assert result.channels[2].identity == "unreadable"
    assert result.trained_wiring == (3, 6, None)


def test_a_dump_of_another_width_is_refused_with_both_widths(tmp_path: Path) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    for file in dump.glob("*.pt"):
        sample = torch.load(file, weights_only=True)
        sample["hidden_states"] = [values[:, :40].clone() for values in sample["hidden_states"]]
        torch.save(sample, file)
    with pytest.raises(HsfError, match="width 40") as refused:
        compare(dump, write_bank(world, tmp_path / "bank"))
    assert refused.value.code == "nothing-compared"


def test_a_wrong_distillation_target_is_named(tmp_path: Path) -> None:
    """A trainer that appends L - 1 instead of L distils from the wrong layer."""
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", (3, 6, 9, LAYERS - 1))
    result = compare(dump, write_bank(world, tmp_path / "bank"))
    assert labels_of(result, "target-not-final") == ["hidden_states[3]"]


def test_without_target_or_capture_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    dump = write_dump(make_world(), tmp_path / "dump", TRUTH)
    with pytest.raises(HsfError, match="--target") as refused:
        compare(dump)
    assert refused.value.exit_code == 2


def test_provenance_is_filled(tmp_path: Path) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    origin = compare(dump, write_bank(world, tmp_path / "live", served=(3, 6, 9)), seed=5).provenance
    assert (origin.target_wrapper, origin.target_inner) == ("LlamaForCausalLM", "LlamaForCausalLM")
    assert (origin.layers, origin.hidden_size, origin.dtype) == (LAYERS, 48, "float32")
    assert (origin.engine, origin.engine_version) == ("sglang", "0.5.12.post1")
    assert (origin.dumps[0].samples, origin.dumps[0].dtype) == (3, "float32")
    assert origin.seeds == {"bootstrap": 5}


def write_config(path: Path, ids: list[int] | None) -> Path:
    """A drafter directory without weights, whose config names these layer ids (``None``: no ids)."""
    path.mkdir()
    eagle = {} if ids is None else {"eagle_aux_hidden_state_layer_ids": ids}
    (path / "config.json").write_text(json.dumps({"hidden_size": 48, "eagle_config": eagle}))
    return path


@pytest.mark.parametrize(
    ("ids", "engine", "states", "code"),
    [
        ([2, 5, 8], "sglang==0.5.12.post1", (3, 6, 9), "config-serves-trained"),
        ([3, 6, 9], "sglang==0.5.16", (3, 6, 9), "config-serves-trained"),
        ([2, 5, 8], "sglang==0.5.16", (2, 5, 8), "config-serves-other"),
        ([-1, 2, 5], "sglang==0.5.12.post1", None, "config-serves-other"),
        (None, "sglang==0.5.16", (2, 6, 9), "ids-absent"),
    ],
)
def test_a_config_is_a_prediction_and_never_a_verdict(
    tmp_path: Path, ids: list[int] | None, engine: str, states: tuple[int, ...] | None, code: str
) -> None:
    world = replace(make_world(), architecture="DeepseekV3ForCausalLM")
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    drafter = write_config(tmp_path / "drafter", ids)
    result = compare(dump, write_bank(world, tmp_path / "bank"), drafter=drafter, engine=engine)
    assert result.verdict == "undecided"
    assert result.served_wiring is None
    assert result.predicted is not None
    assert result.predicted.states == states
    assert code in codes(result)
    assert {item.confidence for item in result.findings if item.code == code} == {"predicted"}


def test_a_measurement_that_contradicts_the_rule_counts(tmp_path: Path) -> None:
    world = replace(make_world(), architecture="DeepseekV3ForCausalLM")
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    drafter = write_config(tmp_path / "drafter", [3, 6, 9])
    served_with = hashlib.sha256((drafter / "config.json").read_bytes()).hexdigest()
    for name, config in (("same", served_with), ("other", "1" * 64), ("unknown", None)):
        live = write_bank(world, tmp_path / name, served=(3, 6, 9), drafter_config=config)
        result = compare(dump, live, drafter=drafter)
        assert result.verdict == "aligned"
        assert result.predicted is not None
        assert result.predicted.states == (4, 7, 10)
        assert ("rule-disagrees" in codes(result)) == (name == "same")
        assert ("other-config" in codes(result)) == (name != "same")
        assert ("config-serves-other" in codes(result)) == (name != "same")  # not this config's measurement: the rule's


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("ids", "served"), [([3, 6, 9], (2, 5, 8)), ([2, 5, 8], (3, 6, 9)), ([2, 5, 8], (2, 5, 8))])
def test_a_capture_of_another_config_says_nothing_of_this_one(
    tmp_path: Path, ids: list[int], served: tuple[int, ...], known: bool
) -> None:
    world = make_world()  # whose engine reads ids of a layer's output: [2, 5, 8] asks for states 3, 6, 9
    dump, drafter = write_dump(world, tmp_path / "dump", TRUTH), write_config(tmp_path / "drafter", ids)
    live = write_bank(world, tmp_path / "live", served, drafter_config="1" * 64 if known else None)
    result = compare(dump, live, drafter=drafter)
    right = ids == [2, 5, 8]
    assert result.verdict == ("aligned" if served == (3, 6, 9) else "misaligned")  # of the capture
    assert result.provenance.served_config_sha256 == ("1" * 64 if known else None)
    doubted = known or served != (3, 6, 9)
    assert ("other-config" in codes(result)) == doubted
    assert ("config-serves-trained" in codes(result)) == (right and doubted)
    assert ("config-serves-other" in codes(result)) == (not right)
    assert "rule-disagrees" not in codes(result)


def test_a_config_that_asks_for_others_is_an_error_although_the_capture_is_aligned(tmp_path: Path) -> None:
    world = make_world()
    dump, drafter = write_dump(world, tmp_path / "dump", TRUTH), write_config(tmp_path / "drafter", [-1, 2, 5])
    live = write_bank(world, tmp_path / "live", (3, 6, 9), drafter_config="1" * 64)
    result = compare(dump, live, drafter=drafter)
    assert result.verdict == "aligned"
    assert [item.code for item in result.findings if item.severity == "error"] == ["config-serves-other"]
    assert "other-config" in codes(result)


def test_an_unknown_class_is_a_finding_not_a_refusal(tmp_path: Path) -> None:
    world = replace(make_world(), architecture="NobodyKnowsForCausalLM")
    dump = write_dump(world, tmp_path / "dump", TRUTH)
    drafter = write_config(tmp_path / "drafter", [3, 6, 9])
    result = compare(dump, write_bank(world, tmp_path / "bank"), drafter=drafter, engine="sglang==0.5.16")
    assert result.predicted is None
    assert "rule-unknown" in codes(result)


def test_labels_that_lie_are_only_a_warning_once_serving_is_right(tmp_path: Path) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", TRUTH, BELIEVED)
    result = compare(dump, write_bank(world, tmp_path / "live", served=(3, 6, 9)))
    assert result.verdict == "aligned"
    lies = [item for item in result.findings if item.code == "channel-mislabelled"]
    assert len(lies) == 4
    assert {item.severity for item in lies} == {"warning"}


@pytest.mark.parametrize(
    ("layer_ids", "words"),
    [
        ((-1, 2, 5, 8), "each is what the channel before it holds"),
        ((3, 6, 9, 11), "every number is 1 too high"),
        ((1, 4, 7, 11), "every number is 1 too low"),
        ((2, 5, 8, 11), None),
        ((2, 5, 9, 11), None),
        ((7, 1, 9, 11), None),
    ],
)
def test_labels_that_lie_in_the_same_way_name_the_bug(
    tmp_path: Path, layer_ids: tuple[int, ...], words: str | None
) -> None:
    world = make_world()
    dump = write_dump(world, tmp_path / "dump", TRUTH, layer_ids)
    found = [
        item.message
        for item in compare(dump, write_bank(world, tmp_path / "bank")).findings
        if item.code == "labels-shifted"
    ]
    assert len(found) == (words is not None)
    assert all(words in message for message in found if words)
