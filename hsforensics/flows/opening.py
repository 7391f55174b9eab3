"""Open what ``compare`` is given: dumps, captures, fingerprints of either, target, drafter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hsforensics.capture.store import open_capture
from hsforensics.dumps import DumpSet, open_dumps
from hsforensics.errors import HsfError
from hsforensics.flows.bank import Bank
from hsforensics.flows.compare_inputs import Inputs, read_samples
from hsforensics.flows.coverage import left_out
from hsforensics.flows.drafter_check import check_drafter
from hsforensics.flows.drafter_side import read_drafter_side
from hsforensics.flows.fingerprint import fingerprint_bank, fingerprint_dumps, sketched_inputs
from hsforensics.flows.fingerprint_file import Described, is_fingerprint
from hsforensics.flows.more_captures import open_rank, open_repeat
from hsforensics.flows.target_check import check_header, check_target
from hsforensics.models.target import load_target
from hsforensics.states import Channel, Finding, Sample, State


def open_inputs(
    dumps: Path,
    capture: Path | None,
    *,
    target: Path | None,
    drafter: Path | None,
    claims: tuple[State, ...] | None,
    max_samples: int,
    repeat: Path | None = None,
    ranks: Sequence[Path] = (),
    salt: str | None = None,
) -> tuple[Inputs, list[Finding]]:
    """Open everything; a file of the dump that cannot be read is a finding. Arguments as in ``compare``.

    Raises:
        HsfError: An input is missing, unreadable or foreign, or no sample can be read.
    """
    if capture is None and target is None:
        raise HsfError("usage", "compare", "nothing to compare with", "add --target MODEL, or name a CAPTURE")
    opened, samples, findings, dump_side = _open_dump_side(dumps, claims, max_samples, salt)
    if dump_side and capture is None:
        raise HsfError("usage", dumps, "a fingerprint alone needs a capture", "name a CAPTURE, or its fingerprint")
    bank, bank_side = _open_bank_side(capture, salt) if capture else (None, None)
    model = load_target(target) if target else None
    if bank and model:
        findings += check_header(bank.manifest, model, bank_side.width) if bank_side else check_target(bank, model)
    made = dump_side or bank_side
    hidden = model.hidden_size if model else made.width if made else bank.manifest.hidden_size if bank else None
    side = read_drafter_side(drafter, hidden) if drafter else None
    if side:
        captured = bank.manifest.target_config_sha256 if bank else None
        targets = {"--target": model.config_sha256 if model else None, "the target that was captured": captured}
        findings += check_drafter(side, targets)
    given = Inputs(
        opened,
        samples,
        bank,
        repeats=open_repeat(repeat, bank, made.width if made else None) if repeat else None,
        ranks=tuple(open_rank(rank, bank) for rank in ranks),
        target=model,
        drafter=side,
        width=made.width if made else None,
    )
    given, notes = sketched_inputs(given, dump_side, bank_side)
    return given, findings + notes


def _open_dump_side(
    dumps: Path, claims: tuple[State, ...] | None, limit: int, salt: str | None
) -> tuple[DumpSet, list[Sample], list[Finding], Described | None]:
    if not is_fingerprint(dumps):
        opened = open_dumps(dumps, claims)
        samples, findings = read_samples(opened, limit)
        return opened, samples, [*findings, *left_out(len(opened.files), limit, str(dumps))], None
    opened, samples, described = fingerprint_dumps(dumps, salt)
    notes = left_out(len(samples), limit, str(dumps))
    if claims is None:
        return opened, samples[:limit], notes, described
    if len(claims) != len(described.labels):
        message = f"{len(claims)} claims for {len(described.labels)} channels in {dumps}"
        raise HsfError("usage", "--claims", message, "name one state for each channel, in file order")
    claimed = [replace(sample, channels=_claiming(sample, claims)) for sample in samples]
    return opened.claiming(claims, "--claims"), claimed[:limit], notes, described


def _claiming(sample: Sample, claims: tuple[State, ...]) -> tuple[Channel, ...]:
    return tuple(replace(channel, claim=claim) for channel, claim in zip(sample.channels, claims, strict=True))


def _open_bank_side(capture: Path, salt: str | None) -> tuple[Bank, Described | None]:
    return fingerprint_bank(capture, salt) if is_fingerprint(capture) else (open_capture(capture), None)
