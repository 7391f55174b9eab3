"""Sequences to evaluate a drafter on: from a capture, channels named by state, or from dumps, by channel number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hsforensics.capture.store import Capture, is_capture, open_capture
from hsforensics.dumps import DumpSet, open_dumps
from hsforensics.errors import HsfError
from hsforensics.findings import finding
from hsforensics.matching.cheap import POSTNORM_SHARE, POSTNORM_TOLERANCE, postnorm_rms
from hsforensics.states import POSTNORM, Finding, Sample, State, show_state, show_wiring

if TYPE_CHECKING:
    from torch import Tensor

    from hsforensics.models.target import Target

BANK_NOTE = "states of the capture's bank, computed by the target itself: the accuracy proves the wiring"
CHANNELS_NOTE = (
    "channels of the dump by number: the accuracy proves that the drafter fits these channels, and nothing about which "
    "states they are, since their labels may lie"
)


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


def open_data(path: Path, wirings: Sequence[tuple[State, ...]], channels: Sequence[tuple[int, ...]]) -> EvalData:
    """Open a capture or dumps, and check that the runs are named the way this source allows.

    Raises:
        HsfError: ``usage`` for states of a dump, channel numbers of a capture, or no run at all; whatever opening
            the data raises.
    """
    if not path.exists():
        raise HsfError("not-found", path, "no such capture or dumps", "check --data")
    if is_capture(path):
        if channels or not wirings:
            got = "a capture's states are named by --wiring" + (", got --channels" if channels else "; none is given")
            raise HsfError("usage", path, got, f"hsforensics draft-eval DRAFTER --data {path} --wiring 2,15,27 ...")
        return EvalData("bank", tuple(wirings), BANK_NOTE, open_capture(path))
    opened = open_dumps(path)
    if wirings or not channels:
        got = (
            "the labels of a dump prove nothing, so a wiring in state numbers needs a capture"
            if wirings
            else "a dump's channels are named by --channels; none is given"
        )
        remedy = (
            f"name channels (--channels 0,1,2), or make a bank first: hsforensics capture {path} --engine transformers "
            "--target MODEL -o CAPTURE"
        )
        raise HsfError("usage", path, got, remedy)
    return EvalData("channels", tuple(channels), CHANNELS_NOTE, opened)


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
        HsfError: ``usage`` when the capture is another target's, or a state or channel is not there;
            ``nothing-compared`` when the data hold nothing to compute the target's choices from.
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
    if (manifest.layers, manifest.hidden_size) != (target.layers, target.hidden_size):
        got = f"the capture's target has L = {manifest.layers} and width {manifest.hidden_size}, this one has "
        got += f"L = {target.layers} and width {target.hidden_size}"
        raise HsfError("usage", "--target", got, f"give the target of the capture: {manifest.target_path}")
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
    for file in dumps.files[:limit]:
        try:
            sample = dumps.read(file)
        except HsfError as error:
            yield finding("file-unreadable", error.where, error.message, error.code, remedy=error.remedy)
            continue
        final = _target_channel(sample, fc_channels, target_channel)
        values: dict[State, Tensor] = {number: _channel(sample, number, "--channels") for number in needed}
        state = _channel(sample, final, "--target-channel")
        found = Reading(
            name=sample.name,
            token_ids=sample.token_ids,
            channels=values,
            final=state,
            final_name=f"channel {final}",
            prenorm=not is_postnorm(state, gain),
            loss_mask=sample.loss_mask,
            dtype=str(state.dtype).removeprefix("torch."),
        )
        yield _judge(found, target, None)


def is_postnorm(values: Tensor, gain: Tensor) -> bool:
    """Whether nearly all finite rows of a channel ([T, H]) are outputs of the RMS norm with this gain ([H])."""
    if values.ndim != 2 or values.shape[1] != len(gain):
        return False
    rms = postnorm_rms(values, gain)  # [T]
    rms = rms[rms.isfinite()]
    near = (rms - 1).abs() <= POSTNORM_TOLERANCE
    return bool(len(rms)) and float(near.float().mean()) >= POSTNORM_SHARE


def _target_channel(sample: Sample, fc_channels: int, asked: int | None) -> int:
    if asked is not None:
        return asked
    if len(sample.channels) <= fc_channels:
        got = f"holds {len(sample.channels)} channels and the drafter joins {fc_channels}: none is left for the target"
        raise HsfError("nothing-compared", sample.name, got, "name the target's channel with --target-channel")
    return len(sample.channels) - 1


def _channel(sample: Sample, number: int, option: str) -> Tensor:
    if not 0 <= number < len(sample.channels):
        got = f"{sample.name} has channels 0 to {len(sample.channels) - 1}, got {number}"
        raise HsfError("usage", option, got, "count the channels with hsforensics compare DUMPS --target MODEL")
    return sample.channels[number].values


def _judge(found: Reading, target: Target, fault: str | None) -> Reading | Finding:
    """The reading itself, or the finding that says why it cannot be evaluated."""
    T = len(found.token_ids)
    channels = {show_state(name) if isinstance(name, str) else str(name): x for name, x in found.channels.items()}
    for name, values in {**channels, found.final_name: found.final}.items():
        if values.shape != (T, target.hidden_size):
            got = f"{name} is {list(values.shape)}, must be [{T}, {target.hidden_size}]"
            return finding("channel-unreadable", f"{found.name}, {name}", "rows or width do not fit", got)
    ids = found.token_ids
    if T < 2:
        fault = f"{T} tokens leave nothing to draft"
    elif int(ids.min()) < 0 or int(ids.max()) >= target.vocab_size:
        fault = f"token ids reach {int(ids.min())} to {int(ids.max())}, the target has {target.vocab_size}"
    elif found.loss_mask is not None and found.loss_mask.shape != (T,):
        fault = f"loss_mask is {list(found.loss_mask.shape)}, must be [{T}]"
    return finding("file-unreadable", found.name, f"not evaluated: {fault}", fault) if fault else found
