"""House style that a linter does not know: size of files and functions, and where heavy imports may stand."""

from __future__ import annotations

import ast
import statistics
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "hsforensics"
FILES = sorted(PACKAGE.rglob("*.py"))
FUNCTIONS = [
    (node.end_lineno - node.lineno + 1, f"{file.name}:{node.name}")
    for file in FILES
    for node in ast.walk(ast.parse(file.read_text()))
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None
]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_files_stay_under_400_lines(file: Path) -> None:
    assert file.read_text().count("\n") < 400


def test_functions_fit_on_a_screen() -> None:
    lengths = [length for length, _ in FUNCTIONS]
    assert [name for length, name in FUNCTIONS if length > 80] == []
    assert statistics.median(lengths) <= 14
    assert sum(length > 40 for length in lengths) / len(lengths) < 0.05


def test_nothing_heavy_is_imported_at_the_top_of_a_module_that_help_reaches() -> None:
    heavy = {"torch", "transformers", "scipy", "pandas", "numpy", "safetensors", "sglang"}
    foreign = {"hook.py", "hook_batch.py", "spool.py", "distance_kernel.py"}  # run in a server, or only where triton is
    for file in (file for file in FILES if file.name not in foreign):
        for node in ast.parse(file.read_text()).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not heavy & {name.split(".")[0] for name in names}, file
