"""Ask every release of SGLang from 0.4.9 on what layer ids mean to it, and record the answers.

Each wheel is downloaded, read (see ``hsforensics.rules.introspect``) and deleted again, one at a time. The answers go
to ``hsforensics/rules/data/sglang_scan.json``, which tests compare with the tables; what changed from release to
release is printed. Run it after a new release: ``python tools/scan_sglang.py``. Releases that the file already holds
are not downloaded again unless ``--all`` is given.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from packaging.version import Version

from hsforensics.rules.introspect.classes import ClassIndex
from hsforensics.rules.introspect.probe import is_target, probe_classes
from hsforensics.rules.introspect.sources import read_sources
from hsforensics.rules.scan import SCAN_FILE, Answer, pack, unpack

FIRST = "0.4.9"
Answers = dict[tuple[str, str], Answer]
"""(class, method) -> answer, of one release."""


def main() -> int:
    """Scan what is new, write the file, print what changed."""
    options = _options()
    known = {} if options.all or not SCAN_FILE.exists() else unpack(json.loads(SCAN_FILE.read_text(encoding="utf-8")))
    before: Answers = {}
    for version in _releases(options.wheels):
        if version not in known:
            known[version] = _scan(version, options.wheels)
        _print_changes(version, before, known[version])
        before = known[version]
    SCAN_FILE.parent.mkdir(exist_ok=True)
    SCAN_FILE.write_text(_layout(pack(known)), encoding="utf-8")
    print(f"{len(known)} releases, {sum(map(len, known.values()))} answers: {SCAN_FILE.name}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheels", type=Path, help="read wheels from this directory instead of downloading them")
    parser.add_argument("--all", action="store_true", help="scan all releases anew")
    return parser.parse_args()


def _releases(wheels: Path | None) -> list[str]:
    """All releases from ``FIRST`` on, oldest first."""
    if wheels is not None:
        found = [path.name.split("-")[1] for path in wheels.glob("sglang-*.whl")]
    else:
        command = [sys.executable, "-m", "pip", "index", "versions", "sglang"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        line = next(line for line in done.stdout.splitlines() if line.startswith("Available versions: "))
        found = line.partition(": ")[2].split(", ")
    return sorted((version for version in found if Version(version) >= Version(FIRST)), key=Version)


def _scan(version: str, wheels: Path | None) -> Answers:
    with tempfile.TemporaryDirectory() as directory:
        place = wheels or Path(directory)
        if wheels is None:
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:"]
            subprocess.run([*command, "-d", directory, f"sglang=={version}"], check=True, timeout=300)
        (wheel,) = place.glob(f"sglang-{version}-*.whl")
        sources = read_sources(str(wheel))
    index = ClassIndex(sources)
    targets = {name: info for name, info in index.entry_classes().items() if is_target(name)}
    found = probe_classes(index, targets, f"sglang=={version}")
    return {(hook.architecture, hook.method): Answer(hook.rule, hook.default, hook.top, hook.marks) for hook in found}


def _print_changes(version: str, before: Answers, now: Answers) -> None:
    for key in sorted(before.keys() | now.keys()):
        old, new = before.get(key), now.get(key)
        if old != new:
            print(f"{version}: {' '.join(key)}: {_show(old)} -> {_show(new)}")


def _show(answer: Answer | None) -> str:
    return "absent" if answer is None else "/".join((answer.rule, answer.default, answer.top, answer.marks))


def _layout(data: dict[str, object]) -> str:
    """JSON with one line for each class and method, so that a change is one line of a diff."""
    return "".join(_lines(data))


def _lines(data: dict[str, object]) -> Iterator[str]:
    rows = data["answers"]
    if not isinstance(rows, list):
        raise TypeError("answers are a list")
    yield f'{{\n  "format": {json.dumps(data["format"])},\n  "releases": {json.dumps(data["releases"])},\n'
    yield '  "answers": [\n' + ",\n".join(f"    {json.dumps(row)}" for row in rows) + "\n  ]\n}\n"


if __name__ == "__main__":
    sys.exit(main())
