"""The detector: which known layout does a path hold?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from hsforensics.dumps import raw_requests, speculators
from hsforensics.dumps.claims import recorded_claims
from hsforensics.dumps.layout import DumpSet, Layout, Listing, RawSample, list_files
from hsforensics.errors import HsfError
from hsforensics.states import State

LAYOUTS: tuple[Layout, ...] = (speculators.LAYOUT, raw_requests.LAYOUT)
"""Every layout that this version reads."""

_PROBES = 16  # files tried to learn the number of channels, when the first ones are unreadable
_REMEDY = "give the directory that the trainer reads"


def open_dumps(path: Path, claims: tuple[State, ...] | None = None) -> DumpSet:
    """Recognise training data on disk and list its samples; reads at most a few of them.

    Args:
        path: A directory, or a single ``.pt`` file of speculators.
        claims: The state that each channel is said to hold; overrides what a ``data_config.json`` says.

    Raises:
        HsfError: ``not-found``; ``dump-unknown`` when no known layout, or more than one, is there; ``usage`` when
            ``claims`` do not fit the number of channels.
    """
    root = path if path.is_dir() else path.parent
    layout, files = _recognise(path)
    found = DumpSet(path, layout.producer, files, None, None, layout.read)
    channels = _count_channels(files, layout.read)
    if claims is not None:
        if channels is not None and len(claims) != channels:
            message = f"{len(claims)} claims for {channels} channels in each sample of {path}"
            raise HsfError("usage", "--claims", message, "name one state for each channel, in file order")
        return found.claiming(claims, "--claims")
    recorded = recorded_claims(root, files, channels) if channels is not None else None
    return found.claiming(*recorded) if recorded else found


def _recognise(path: Path) -> tuple[Layout, tuple[Path, ...]]:
    if not path.exists():
        raise HsfError("not-found", path, "no such dump", "check the path")
    if not path.is_dir():
        if path.suffix != ".pt":
            raise HsfError("dump-unknown", path, "a single file must be a .pt file of speculators", _REMEDY)
        return speculators.LAYOUT, (path,)
    listing = list_files(path)
    matches = [(layout, files) for layout in LAYOUTS if (files := layout.find(listing))]
    if len(matches) == 1:
        return matches[0]
    if matches:
        both = " and ".join(f"{layout.producer} ({len(files)} samples)" for layout, files in matches)
        raise HsfError("dump-unknown", path, f"holds {both}", "give one of their directories")
    raise HsfError("dump-unknown", path, f"holds {_summary(listing)}; known layouts are {_known()}", _REMEDY)


def _known() -> str:
    return "; ".join(f"{layout.producer} ({layout.looks_like})" for layout in LAYOUTS)


def _summary(listing: Listing) -> str:
    """What lies there, in one line: how many files of which kind, and the first names."""
    names = [name for _, files in listing for name in files]
    if not names:
        return "no files"
    kinds = Counter(Path(name).suffix or "no suffix" for name in names).most_common(4)
    return f"{', '.join(f'{count} {kind}' for kind, count in kinds)} (such as {', '.join(names[:3])})"


def _count_channels(files: tuple[Path, ...], read: Callable[[Path], RawSample]) -> int | None:
    """Channels in the first readable sample; ``None`` when the first few are all unreadable."""
    for file in files[:_PROBES]:
        try:
            return len(read(file).values)
        except HsfError:
            continue
    return None
