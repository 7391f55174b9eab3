"""``fix-config --undo``: give a config the bytes back that it had before the last edit."""

from __future__ import annotations

from pathlib import Path

from hsforensics.drafter.config import parse_drafter_config, read_drafter_config
from hsforensics.drafter.edits import diff_text
from hsforensics.drafter.write import UNDONE, last_backup, replace_file
from hsforensics.errors import HsfError
from hsforensics.flows.provenance import provenance
from hsforensics.results_config import UndoResult


def undo_config(drafter: Path) -> UndoResult:
    """Restore the newest backup of a drafter's config, atomically, and keep the bytes that it held until now.

    The backup is used up, so that a second undo takes back the edit before.

    Args:
        drafter: The drafter's directory, or its ``config.json``.

    Raises:
        HsfError: No config, no backup, a backup that is no config (``drafter-unreadable``), or ``write-refused``.
    """
    config = read_drafter_config(drafter)
    backup = last_backup(config.path)
    if backup is None:
        message = f"there is no {config.path.name}.bak beside it, so nothing was edited here, or it was undone"
        raise HsfError("write-refused", config.path, message, "restore the file from its source")
    earlier = parse_drafter_config(backup, backup.read_bytes())
    kept = replace_file(config.path, config.raw, earlier.raw, UNDONE)
    backup.unlink(missing_ok=True)
    return UndoResult(
        config_path=str(config.path),
        restored=str(backup),
        kept=str(kept),
        diff=diff_text(config.text, earlier.text, config.path.name),
        findings=(),
        provenance=provenance(drafter_path=str(drafter), drafter_config_sha256=earlier.sha256),
    )
