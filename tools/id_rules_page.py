"""The page ``docs/id-rules.md``, made from the rule book: every class, range of versions, rule, source, how known."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from hsforensics.drafter.keys import IDS_KEYS
from hsforensics.rules.flags import FLAG_SUPPORT
from hsforensics.rules.functions import DEFAULTS, MEANINGS
from hsforensics.rules.live import live_checks, live_engines, live_loops, versions_seen
from hsforensics.rules.lookup import rules_of
from hsforensics.rules.rows import ConfigReading, IdRule, ModelClass
from hsforensics.rules.scan import load_scan
from hsforensics.rules.speculators import MODEL_TYPE, ROWS
from hsforensics.rules.tables import CONFIG_READINGS, ENGINES, ID_RULES, MODEL_CLASSES, RUNNERS

_INTRO = """# Id rules

What a list of layer ids means depends on the engine, its version, the target's model class and the kind of drafter.
This page is the rule book of `hsforensics rules` and `hsforensics fix-config`; it is generated from the data, and
tests compare the data with the code of every SGLang release and with real engines.

States are numbered as everywhere here: state 0 is the embedding, state i the input of layer i, state L leaves the
last layer before the final norm.

## How a row is known

| word | meaning |
| --- | --- |
| verified live | engines of the versions named were given ids, and the states served were inferred from values |
| executed on stubs | the setter's own code was run on stub objects, for every release; where it captures was read |
| read from source | by reading only |
| unknown | nobody looked |

When a version is newer than all looked at, the newest row is taken and a finding says so. `--introspect PATH` then
reads the rule from that engine's own code, and a live capture measures it. Both count more than this page.

`--introspect` executes code from the given place. Only the text of the setters `set_*_layers_to_capture` (and of the
properties that they use) runs: it must pass a check that allows assignments, loops, comparisons and a dozen pure
builtins, and no import, private name, `while`, `try`, power or format call; it runs on stub objects in a process of
its own, without site packages, environment or files, with limits on time and memory. Give it code that you would
install anyway.
"""


_LOOP = """On a CPU, with real SGLang and tiny targets (`tests/sglang/test_loop.py`).

A whole engine starts on the very directory that `fix-config --write` left, reads its config with its own code, drafts
with it, and the states that it serves are inferred from values: the trained ones.

"""

_LISTS = """

For more wirings, without a server: `fix-config` writes ids into a config, this package reads them back, and gives them
to the setter of the engine's own model. The states that the model then captures are inferred from values: the wiring.

"""


_SPECULATORS = f"""Where `{MODEL_TYPE}` names the drafter's kind, vLLM's loader takes the ids from one key, and
overwrites `dflash_config` with them before a runner reads it, less 1 where the runner adds 1: an id is a state, in both
runners.

"""


def id_rules_page() -> str:
    """The whole page."""
    scan = load_scan()
    sglang = f"{len(scan.releases)} releases of SGLang from {scan.releases[0]} to {scan.releases[-1]} were executed."
    parts = [
        _INTRO,
        "## Rules\n\n" + _table(("rule", "an id means"), ((f"`{name}`", text) for name, text in MEANINGS.items())),
        "## Defaults\n\n" + _table(("default", "without ids"), ((f"`{n}`", _doc(f)) for n, f in DEFAULTS.items())),
        f"## SGLang, EAGLE-3\n\n{sglang}\n\n" + _classes("sglang", ("eagle3",)),
        "## SGLang, DFLASH and DSPARK\n\nIds are checked against 0 to L - 1, so state 0 cannot be asked for.\n\n"
        + _classes("sglang", ("dflash", "dspark")),
        "## vLLM\n\n" + _classes("vllm", ("eagle3", "dflash", "dspark")),
        "### Drafters in the layout of speculators\n\n" + _SPECULATORS + _speculators(),
        "## TensorRT-LLM\n\n" + _classes("tensorrt-llm", ("eagle3",)),
        "## Which keys are read\n\n" + _readings(),
        "## Which runner vLLM takes\n\n" + _runners(),
        "## Who reads which key\n\n" + _table(("key", "read by"), ((f"`{k}`", v) for k, v in IDS_KEYS.items())),
        "## Norms before and after\n\n" + _flags(),
        "## Known faults\n\n" + _faults(),
        "## Seen live\n\n" + _live(),
        "## The loop, closed\n\n" + _LOOP + _engines() + _LISTS + _loops(),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _doc(function: object) -> str:
    text = inspect.getdoc(function) or ""
    return " ".join(text.split()).replace("``", "`")


def _table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    names = list(head)
    lines = [f"| {' | '.join(names)} |", f"| {' | '.join('---' for _ in names)} |"]
    lines += [f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines)


def _classes(engine: str, methods: tuple[str, ...]) -> str:
    head = ["class", "versions", "rule", "default", "state 0", "state L", "how known", "source"]
    rows = [row for row in MODEL_CLASSES if row.engine == engine and row.method in methods]
    with_method = len(methods) > 1
    if with_method:
        head.insert(1, "drafter")
    lines = [
        [f"`{row.name}`", *([row.method] if with_method else []), *_cells(row, rule)]
        for row in sorted(rows, key=lambda row: (row.name, row.method))
        for rule in rules_of(row)
        if _overlaps(row, rule)
    ]
    return _table(head, lines)


def _cells(row: ModelClass, rule: IdRule) -> tuple[str, ...]:
    zero = "yes" if rule.state_zero else "no"
    last = {"captured": "yes", "lost": "no", "crashes": "no: crashes"}[rule.last_state]
    seen = versions_seen(row, rule)
    known = f"verified live ({', '.join(seen)})" if seen else rule.verified
    inner = f"; as `{row.delegates_to}`" if row.delegates_to else ""
    return (_span(row, rule), f"`{rule.rule}`", f"`{rule.default}`", zero, last, known, f"{rule.source}{inner}")


def _overlaps(row: ModelClass, rule: IdRule) -> bool:
    """Whether a row's versions and a class's life share a version."""
    end = _end(rule)
    return end is None or Version(row.since) < end


def _span(row: ModelClass, rule: IdRule) -> str:
    """The range of a row, cut to the class's life."""
    start = max(Version(row.since), Version(rule.versions.split(",")[0].removeprefix(">=")))
    ends = [end for end in (_end(rule), Version(row.until) if row.until else None) if end is not None]
    return f">={start},<{min(ends)}" if ends else f">={start}"


def _end(rule: IdRule) -> Version | None:
    for part in SpecifierSet(rule.versions):
        if part.operator == "<":
            return Version(part.version)
    return None


def _readings() -> str:
    def cells(row: ConfigReading) -> tuple[str, ...]:
        keys = ", then ".join(f"`{key}`" for key in row.keys) or (
            f"argument `{row.argument}`" if row.argument else "none"
        )
        sizes = f"`{row.count_key}`" if row.count_key else "the ids"
        switch = f"`{row.switch_key}`" if row.switch_key else "none"
        return (row.engine, row.method, row.versions, keys, switch, sizes, str(row.slots or "any"), row.source)

    head = ("engine", "drafter", "versions", "ids from", "switch", "fc sized by", "states", "source")
    return _table(head, (cells(row) for row in CONFIG_READINGS))


def _speculators() -> str:
    rows = (
        (row.method, row.versions, f"`{reading.ids_key}`", f"`{row.rule}`", row.verified, row.source)
        for row, reading in ROWS
    )
    return _table(("drafter", "versions", "ids from", "rule", "how known", "source"), rows)


def _runners() -> str:
    rows = (
        (r.versions, ", ".join(f"`{c}`" for c in r.classes or ()) or "all others", r.runner, r.source) for r in RUNNERS
    )
    return _table(("versions", "classes", "readings of", "note"), rows)


def _flags() -> str:
    head = ("engine", "switch", "honoured by", "other versions", "source")
    return _table(head, ((r.engine, f"`{r.flag}`", r.versions or "none", r.otherwise, r.source) for r in FLAG_SUPPORT))


def _faults() -> str:
    return _table(("engine", "drafter", "where", "versions", "fault"), _fault_rows())


def _fault_rows() -> Iterator[tuple[str, ...]]:
    for reading in CONFIG_READINGS:
        for caveat in reading.caveats:
            yield (reading.engine, reading.method, "all classes", reading.versions, caveat.text)
    for rule in ID_RULES:
        names = [
            r.name for r in MODEL_CLASSES if (r.engine, r.family, r.method) == (rule.engine, rule.family, rule.method)
        ]
        for caveat in rule.caveats:
            yield (rule.engine, rule.method, ", ".join(f"`{name}`" for name in names), rule.versions, caveat.text)
        if rule.missing == "fails":
            text = "raises when fewer states arrive than ids were given"
            yield (rule.engine, rule.method, ", ".join(f"`{name}`" for name in names), rule.versions, text)
    for choice in RUNNERS:
        for caveat in choice.caveats:
            yield (choice.engine, "eagle3", "all classes", choice.versions, caveat.text)


def _engines() -> str:
    rows = ((f"{ENGINES[e].title} {v}", f"`{c}`", layers, list(s)) for e, v, c, layers, s in live_engines())
    return _table(("engine", "class", "L", "written and served"), rows)


def _loops() -> str:
    rows = (
        (
            f"{ENGINES[loop.engine].title} {loop.version}",
            f"`{loop.architecture}`",
            loop.layers,
            ", ".join(str(list(wiring)) for wiring in loop.served),
            ", ".join(str(list(wiring)) for wiring in loop.refused) or "none",
        )
        for loop in live_loops()
    )
    return _table(("engine", "class", "L", "written and captured", "refused, since not expressible"), rows)


def _live() -> str:
    words = {"dies": "the engine dies", "off-bank": "no state of the target"}
    rows = (
        (
            f"{ENGINES[c.engine].title} {c.version}",
            f"`{c.architecture}`",
            c.layers,
            "none" if c.ids is None else list(c.ids),
            words[c.served] if isinstance(c.served, str) else list(c.served),
        )
        for c in live_checks()
    )
    return _table(("engine", "class", "L", "ids", "served"), rows)
