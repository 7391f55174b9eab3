"""Docs cannot drift: generated pages are fresh, links resolve, codes are used, README commands exist."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from hsforensics.errors import ERROR_CODES
from hsforensics.findings import CATALOGUE
from hsforensics.flows.rules import rules

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
SOURCE = "\n".join(file.read_text() for file in (ROOT / "hsforensics").rglob("*.py"))


def readme_commands() -> list[list[str]]:
    """The ``hsforensics`` commands of the README's console blocks, in order."""
    blocks = re.findall(r"```console\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    return [shlex.split(line) for line in lines if line.startswith("hsforensics ")]


def test_generated_pages_are_fresh() -> None:
    done = subprocess.run([sys.executable, ROOT / "tools/gen_docs.py", "--check"], capture_output=True, text=True)
    assert done.stdout == ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_resolves(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    broken = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert broken == []


@pytest.mark.parametrize("code", CATALOGUE)
def test_every_finding_kind_is_raised_somewhere(code: str) -> None:
    assert SOURCE.count(f'"{code}"') >= 2  # once in the catalogue, once where it is seen


@pytest.mark.parametrize("code", ERROR_CODES)
def test_every_error_code_is_raised_somewhere(code: str) -> None:
    assert SOURCE.count(f'"{code}"') >= 2


def test_every_code_that_is_raised_is_catalogued() -> None:
    assert set(re.findall(r'\bfinding\(\s*"([a-z-]+)"', SOURCE)) <= set(CATALOGUE)
    assert set(re.findall(r'\bHsfError\(\s*"([a-z-]+)"', SOURCE)) <= set(ERROR_CODES)


def test_readme_options_exist() -> None:
    commands = readme_commands()
    assert {command[1] for command in commands} >= {"compare", "capture", "draft-eval", "fix-config", "rules"}
    pages = re.split(r"\n##+ `hsforensics ([^`]+)`", (ROOT / "docs/cli.md").read_text())
    texts = dict(zip(pages[1::2], pages[2::2], strict=True))
    for command in commands:
        name = next(name for name in (" ".join(command[1:3]), command[1]) if name in texts)
        assert [word for word in command if word.startswith("--") and word not in texts[name]] == [], command


def test_the_project_names_no_machine_and_no_package_index() -> None:
    forbidden = re.compile(r"/work/|/farm/|/root/|/tmp/[a-z]|pypi\.org|files\.pythonhosted|download\.pytorch\.org")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    texts = {
        name: (ROOT / name).read_bytes() for name in listed if (ROOT / name).is_file() and name != "tests/test_docs.py"
    }
    assert [name for name, raw in texts.items() if forbidden.search(raw.decode("utf-8", "ignore"))] == []


def test_the_repository_stays_small() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    assert sum((ROOT / name).stat().st_size for name in listed if (ROOT / name).is_file()) < 18_000_000


def test_help_and_the_exit_code_table_name_the_same_codes() -> None:
    table = re.findall(r"^\| ([a-z -]+) \| (\d+) \|", (ROOT / "docs/exit-codes.md").read_text(), flags=re.MULTILINE)
    pages = re.split(r"\n##+ `hsforensics ([^`]+)`", (ROOT / "docs/cli.md").read_text())
    for command, page in zip(pages[1::2], pages[2::2], strict=True):
        listed = {code for name, code in table if name == command}
        words = page.split("Exit codes:")
        if len(words) == 2:
            said = set(re.findall(r"(?:^|; )\s*(\d+) ", " ".join(words[1].split("\n\n")[0].split())))
            assert said - {"2"} == listed, command
        else:
            assert listed <= {"0"}, command


def test_the_incident_page_says_what_the_rules_say() -> None:
    page = (ROOT / "docs/incident.md").read_text()
    architecture, layers = re.findall(r"^\| SGLang, `(\w+)`, (\d+) layers", page, flags=re.MULTILINE)[0]
    rows = re.findall(r"^\| (0\.5[\w.]+) \|(.*)\|$", page, flags=re.MULTILINE)
    assert [version for version, _ in rows] == ["0.5.12.post1", "0.5.16"]
    for version, cells in rows:
        told = [tuple(map(int, cell.split(", "))) for cell in re.findall(r"`\[(.*?)\]`", cells)]
        asked = {"engine": f"sglang=={version}", "architecture": architecture, "layers": int(layers)}
        first, fix = (rules(ids=ids, **asked).states for ids in ((2, 30, 58), (-1, 2, 30)))
        assert told[0] == first
        assert told[1] == fix or (fix is None and " fails " in cells)
        assert told[2] == rules(states=(3, 31, 59), **asked).ids
