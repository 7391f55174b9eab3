"""Sequences to evaluate a drafter on: from a capture, channels named by state, or from dumps, by channel number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hsforensics.capture.manifest import REQUEST_NAME, TEMPORARY, token_ids_sha256
from hsforensics.capture.store import Capture, is_capture, open_capture
from hsforensics.dumps import DumpSet, open_dumps
from hsforensics.errors import HsfError
from hsforensics.finding_kinds import MAKE_BANK
from hsforensics.findings import fill, finding
from hsforensics.flows.known import known_paths
from hsforensics.flows.target_check import check_target
from hsforensics.matching.cheap import POSTNORM_SHARE, POSTNORM_TOLERANCE, postnorm_rms
from hsforensics.states import POSTNORM, Finding, Sample, State, show_state, show_wiring

if TYPE_CHECKING:
    from torch import Tensor

    from hsforensics.models.target import Target

BANK_NOTE = (
    "states of the capture's bank, computed by the target itself: a much higher accuracy than with another wiring "
    "refutes that other one; states one apart serve a drafter about equally well, and only values tell them apart "
    "(hsforensics compare)"
)
CHANNELS_NOTE = (
    "channels of the dump by number: the accuracy proves that the drafter fits these channels, and nothing about which "
    "states they are, since their labels may lie"
)

_PROBES = 16  # samples whose channels are looked at to see what is usual in this set


@dataclass(frozen=True)
class Reading:
    """One sequence, ready to be evaluated by every run.

    Attributes:
        name: For messages.
        token_ids: [T] int64.
        channels: State or channel number -> [T, H] in the stored dtype; all that the runs need.
        final: [T, H], the state that the target's choices are computed from.
        final_name: What ``final`` is, for people.
        prenorm: Whether the final norm has still to be applied to it.
        loss_mask: [T] int64, or ``None``.
        dtype: dtype of the channels as stored.
    """

    name: str
    token_ids: Tensor
    channels: Mapping[State, Tensor]
    final: Tensor
    final_name: str
    prenorm: bool
    loss_mask: Tensor | None
    dtype: str


@dataclass(frozen=True)
class EvalData:
    """Where the sequences come from.

    Attributes:
        source: ``bank`` or ``channels``, see ``hsforensics.results.DraftRun``.
        runs: The wirings, or the channel numbers, of each run.
        note: What an accuracy measured on this source proves.
        opened: The capture or the dumps.
    """

    source: Literal["bank", "channels"]
    runs: tuple[tuple[State, ...], ...]
    note: str
    opened: Capture | DumpSet


def open_data(
    path: Path,
    wirings: Sequence[tuple[State, ...]],
    channels: Sequence[tuple[int, ...]],
    target: Path | None = None,
) -> EvalData:
    """Open a capture or dumps, and check that the runs are named the way this source allows.

    ``target`` is only named in a remedy.

    Raises:
        HsfError: ``usage`` for states of a dump, channel numbers of a capture, or no run at all; whatever opening
            the data raises, so that an unfinished capture is called one.
    """
    if _is_of_a_capture(path):
        opened = _open_capture(path)
        if channels or not wirings:
            got = "a capture's states are named by --wiring" + (", got --channels" if channels else "; none is given")
            raise HsfError("usage", path, got, "name the states to feed, such as --wiring 2,15,27")
        return EvalData("bank", tuple(wirings), BANK_NOTE, opened)
    dumps = open_dumps(path)
    if wirings or not channels:
        got = (
            "the labels of a dump prove nothing, so a wiring in state numbers needs a capture"
            if wirings
            else "a dump's channels are named by --channels; none is given"
        )
        make = fill(MAKE_BANK[0], known_paths(DUMPS=path, MODEL=target))
        raise HsfError("usage", path, got, f"name channels (--channels 0,1,2), or make a bank first: {make}")
    return EvalData("channels", tuple(channels), CHANNELS_NOTE, dumps)


def _is_of_a_capture(path: Path) -> bool:
    """Whether a path is a capture, a part or a leftover of one, or nothing (beside which a leftover may lie)."""
    if not path.exists() or TEMPORARY.fullmatch(path.name) or is_capture(path):
        return True
    try:
        return path.is_dir() and any(REQUEST_NAME.fullmatch(file.name) for file in path.iterdir())
    except OSError:
        return False


def _open_capture(path: Path) -> Capture:
    try:
        return open_capture(path)
    except HsfError as error:
        if error.code != "not-found":
            raise
        raise HsfError("not-found", path, "no such capture or dumps", "check --data") from None


def readings(
    data: EvalData, target: Target, fc_channels: int, target_channel: int | None, limit: int | None
) -> Iterator[Reading | Finding]:
    """Read the sequences one by one; a sequence that cannot be judged becomes a finding instead.

    Args:
        data: From ``open_data``.
        target: Its width, vocabulary and final norm are compared with the data's.
        fc_channels: n, the channels that the drafter joins.
        target_channel: Channel of a dump that the target's choices are computed from; the last one by default.
        limit: Sequences to look at, at most.

    Raises:
        HsfError: ``target-foreign`` when the capture is another target's; ``usage`` when a state or channel is not
            there; ``nothing-compared`` when the data hold nothing to compute the target's choices from.
    """
    if isinstance(data.opened, Capture):
        if target_channel is not None:
            raise HsfError("usage", "--target-channel", "only dumps have channels by number", "leave it out")
        return _from_capture(data.opened, data.runs, target, limit)
    return _from_dumps(data.opened, data.runs, target, fc_channels, target_channel, limit)


def _from_capture(
    capture: Capture, runs: tuple[tuple[State, ...], ...], target: Target, limit: int | None
) -> Iterator[Reading | Finding]:
    manifest = capture.manifest
    yield from check_target(capture, target)
    needed = dict.fromkeys(state for run in runs for state in run)
    for state in needed:
        if state not in manifest.states:
            held = show_wiring(manifest.states)
            got = f"the capture holds no {show_state(state)}, only {held}"
            raise HsfError("usage", "--wiring", got, "name states of this capture, or capture a bank with all states")
    final: State = POSTNORM if POSTNORM in manifest.states else manifest.layers
    if final not in manifest.states:
        got = f"holds neither postnorm nor state {manifest.layers}, so the target's choices are not known"
        raise HsfError("nothing-compared", capture.path, got, "capture a bank with all states")
    for entry in capture.requests[:limit]:
        request = capture.read(entry)
        held_states = {state: request.state(state) for state in needed}
        broken = bool((request.positions.diff() != 1).any())
        found = Reading(
            name=entry.file,
            token_ids=request.token_ids,
            channels=held_states,
            final=request.state(final),
            final_name=show_state(final),
            prenorm=final != POSTNORM,
            loss_mask=None,
            dtype=manifest.dtype,
        )
        yield _judge(found, target, "its positions are not consecutive" if broken else None)


def _from_dumps(
    dumps: DumpSet,
    runs: tuple[tuple[State, ...], ...],
    target: Target,
    fc_channels: int,
    target_channel: int | None,
    limit: int | None,
) -> Iterator[Reading | Finding]:
    needed = tuple(dict.fromkeys(int(number) for run in runs for number in run))
    gain = target.norm_weight()  # [H]
    usual = _usual_labels(dumps, limit)
    final = _target_channel(dumps, usual, fc_channels, target_channel) if usual else 0
    for number, option in (*((number, "--channels") for number in needed), (final, "--target-channel")):
        _check_number(dumps, usual, number, option)
    for file in dumps.files[:limit]:
        try:
            sample = dumps.read(file)
        except HsfError as error:
            yield _unreadable(error)
            continue
        if _labels(sample) != usual:
            message = f"{sample.name} lacks or adds channels, so that their numbers mean others than in most samples"
            proof = f"it holds {', '.join(_labels(sample))}; the others hold {', '.join(usual)}"
            yield finding("file-unreadable", sample.name, message, proof)
            continue
        state = sample.channels[final].values
        found = Reading(
            name=sample.name,
            token_ids=sample.token_ids,
            channels={number: sample.channels[number].values for number in needed},
            final=state,
            final_name=f"channel {final}",
            prenorm=not is_postnorm(state, gain),
            loss_mask=sample.loss_mask,
            dtype=str(state.dtype).removeprefix("torch."),
        )
        yield _judge(found, target, None)


def _unreadable(error: HsfError) -> Finding:
    message = f"{error.where}: {error.message}"
    return finding("file-unreadable", error.where, message, error.code, remedy=error.remedy)


def _labels(sample: Sample) -> tuple[str, ...]:
    return tuple(channel.label for channel in sample.channels)


def _usual_labels(dumps: DumpSet, limit: int | None) -> tuple[str, ...]:
    """The channels' labels in most of the first readable samples; empty when none is readable.

    A sample that lacks a file has other channels under the same numbers.
    """
    seen: Counter[tuple[str, ...]] = Counter()
    for file in dumps.files[:limit]:
        if seen.total() == _PROBES:
            break
        try:
            seen[_labels(dumps.read(file))] += 1
        except HsfError:
            continue
    return max(seen, key=lambda labels: (seen[labels], len(labels)), default=())


def is_postnorm(values: Tensor, gain: Tensor) -> bool:
    """Whether nearly all finite rows of a channel ([T, H]) are outputs of the RMS norm with this gain ([H])."""
    if values.ndim != 2 or values.shape[1] != len(gain):
        return False
    rms = postnorm_rms(values, gain)  # [T]
    rms = rms[rms.isfinite()]
    near = (rms - 1).abs() <= POSTNORM_TOLERANCE
    return bool(len(rms)) and float(near.float().mean()) >= POSTNORM_SHARE


def _target_channel(dumps: DumpSet, usual: tuple[str, ...], fc_channels: int, asked: int | None) -> int:
    if asked is not None:
        return asked
    if len(usual) <= fc_channels:
        got = f"its samples hold {len(usual)} channels and the drafter joins {fc_channels}: none is left for the target"
        raise HsfError("nothing-compared", dumps.path, got, "name the target's channel with --target-channel")
    return len(usual) - 1


def _check_number(dumps: DumpSet, usual: tuple[str, ...], number: int, option: str) -> None:
    if usual and not 0 <= number < len(usual):
        got = f"the samples of {dumps.path} have channels 0 to {len(usual) - 1}, got {number}"
        raise HsfError("usage", option, got, f"name one of 0 to {len(usual) - 1}")


def _judge(found: Reading, target: Target, fault: str | None) -> Reading | Finding:
    """The reading itself, or the finding that says why it cannot be evaluated."""
    T = len(found.token_ids)
    channels = {show_state(name) if isinstance(name, str) else str(name): x for name, x in found.channels.items()}
    for name, values in {**channels, found.final_name: found.final}.items():
        if values.shape != (T, target.hidden_size):
            got = f"{name} is {list(values.shape)}, must be [{T}, {target.hidden_size}]"
            return finding(
                "channel-unreadable", f"{found.name}, {name}", f"{found.name}: rows or width do not fit", got
            )
    if T and not bool(found.final.isfinite().all(dim=1).any()):
        got = f"none of {T} rows is finite, so the target's choices are not known"
        message = f"{found.name}: {found.final_name} holds no finite row"
        return finding("channel-unreadable", f"{found.name}, {found.final_name}", message, got)
    ids = found.token_ids
    if T < 2:
        fault = f"{T} tokens leave nothing to draft"
    elif int(ids.min()) < 0 or int(ids.max()) >= target.vocab_size:
        fault = f"token ids reach {int(ids.min())} to {int(ids.max())}, the target has {target.vocab_size}"
    elif found.loss_mask is not None and found.loss_mask.shape != (T,):
        fault = f"loss_mask is {list(found.loss_mask.shape)}, must be [{T}]"
    return finding("file-unreadable", found.name, f"{found.name} is not evaluated: {fault}", fault) if fault else found


def distinct(items: Iterator[Reading | Finding]) -> Iterator[Reading | Finding]:
    """Leave out readings whose token ids came before; one finding at the end says how many."""
    first: dict[str, str] = {}  # hash of the token ids -> name of the sequence
    copies: list[tuple[str, str]] = []
    for item in items:
        if isinstance(item, Reading):
            digest = token_ids_sha256(item.token_ids)
            if digest in first:
                copies.append((item.name, first[digest]))
                continue
            first[digest] = item.name
        yield item
    if copies:
        message = "sequences with the token ids of an earlier one are left out, so that each counts once"
        proof = f"{len(copies)} of {len(first) + len(copies)}, such as {copies[0][0]}, a copy of {copies[0][1]}"
        yield finding("sequences-repeated", "the data", message, proof)
