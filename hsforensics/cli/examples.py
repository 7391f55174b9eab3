"""One right call or more of every command: shown by its help, and by the refusal of a wrong call."""

from __future__ import annotations

from itertools import pairwise

EXAMPLES: dict[str, tuple[str, ...]] = {
    "hsforensics": ("hsforensics demo",),
    "hsforensics demo": ("hsforensics demo --keep DIR",),
    "hsforensics capture": (
        "hsforensics capture DUMPS --target MODEL --out BANK",
        "hsforensics capture DUMPS --engine sglang --target MODEL --draft DRAFTER --out LIVE",
    ),
    "hsforensics compare": (
        "hsforensics compare DUMPS CAPTURE --draft DRAFTER",
        "hsforensics compare DUMPS --target MODEL",
        "hsforensics compare DUMPS BANK --draft DRAFTER --engine sglang==0.5.16",
    ),
    "hsforensics fingerprint": ("hsforensics fingerprint DUMPS --out dumps.fp",),
    "hsforensics fix-config": (
        "hsforensics fix-config DRAFTER --report report.json --engine sglang==0.5.16",
        "hsforensics fix-config DRAFTER --wiring 3,31,59 --engine sglang==0.5.12.post1 --target MODEL --write",
        "hsforensics fix-config DRAFTER --report report.json --engine sglang==0.5.23 --engine vllm==0.33.0 "
        "--output FIXED",
        "hsforensics fix-config DRAFTER --undo",
    ),
    "hsforensics draft-eval": (
        "hsforensics draft-eval DRAFTER --target MODEL --data BANK --wiring 3,31,59 --wiring 0,3,31",
        "hsforensics draft-eval DRAFTER --target MODEL --data DUMPS --channels 0,1,2",
    ),
    "hsforensics rules": (
        "hsforensics rules --engine sglang==0.5.16 --architecture KimiK25ForConditionalGeneration --layers 61 "
        "--ids 2,30,58",
        "hsforensics rules --engine vllm==0.33.0 --target MODEL --states 3,31,59",
        "hsforensics rules --introspect installed --architecture LlamaForCausalLM --layers 32 --ids 2,16,29",
    ),
    "hsforensics contract": ("hsforensics contract verify DRAFTER --engine sglang==0.5.16",),
    "hsforensics contract write": ("hsforensics contract write DRAFTER --report report.json --dumps DUMPS",),
    "hsforensics contract verify": (
        "hsforensics contract verify DRAFTER --engine sglang==0.5.16",
        "hsforensics contract verify DRAFTER CAPTURE",
    ),
    "hsforensics findings": ("hsforensics findings offset-uniform",),
}
"""Path of a command -> calls; upper-case words and file names stand for the user's own."""

_WIDTH = 72  # within 80 columns together with help's indent and margins, and a backslash


def folded(call: str) -> str:
    """A call for a shell in lines that fit a terminal, broken before an option where it is too long for one."""
    words = call.split(" ")
    starts = [0, *(place for place, word in enumerate(words) if word.startswith("--")), len(words)]
    parts = [" ".join(words[first:last]) for first, last in pairwise(starts)]
    lines = [parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + 1 + len(part) <= _WIDTH:
            lines[-1] += f" {part}"
        else:
            lines.append(f"  {part}")
    return " \\\n".join(lines)
