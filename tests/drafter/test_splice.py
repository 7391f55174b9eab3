"""One value of a JSON text changes; every other byte stays."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsforensics.drafter.spans import scan, walk
from hsforensics.drafter.splice import set_value

IDS = ("eagle_config", "eagle_aux_hidden_state_layer_ids")

_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _text
_values = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_text, inner, max_size=4), max_leaves=12
)
_keys = st.sampled_from(["a", "eagle_config", "é", "x y", 'q"\\', "ids", ""])
_documents = st.dictionaries(_keys | _text, _values, max_size=6)


@st.composite
def _written(draw: st.DrawFn, documents: st.SearchStrategy[dict[str, Any]] = _documents) -> str:
    """A JSON text in one of the layouts that people's tools write."""
    indent = draw(st.sampled_from([None, 0, 1, 2, 4, "\t"]))
    separators = draw(st.sampled_from([None, (",", ":"), (", ", ": "), (",", " : ")]))
    text = json.dumps(draw(documents), indent=indent, separators=separators, ensure_ascii=draw(st.booleans()))
    text = text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))
    return draw(st.sampled_from(["", " ", "\n"])) + text + draw(st.sampled_from(["", "\n", "\r\n", "\n\n"]))


def _with(data: Any, path: list[str], value: Any) -> Any:
    made = copy.deepcopy(data) if isinstance(data, dict) else {}
    made[path[0]] = value if len(path) == 1 else _with(made.get(path[0]), path[1:], value)
    return made


def _same(left: Any, right: Any) -> bool:
    return json.dumps(left) == json.dumps(right)  # tells true from 1, and looks at the order of keys


@settings(deadline=None)
@given(text=_written(), path=st.lists(_keys, min_size=1, max_size=3), value=_values)
def test_the_result_parses_to_exactly_the_intended_object(text: str, path: list[str], value: Any) -> None:
    result = set_value(text, path, value)
    assert _same(json.loads(result), _with(json.loads(text), path, value))


@settings(deadline=None)
@given(text=_written(), path=st.lists(_keys, min_size=1, max_size=3), value=_values)
def test_setting_twice_is_setting_once(text: str, path: list[str], value: Any) -> None:
    once = set_value(text, path, value)
    assert set_value(once, path, value) == once


@settings(deadline=None)
@given(text=_written(), path=st.lists(_keys, min_size=1, max_size=3), value=_values)
def test_line_ends_are_never_mixed(text: str, path: list[str], value: Any) -> None:
    lone_before = text.replace("\r\n", "").count("\n")
    result = set_value(text, path, value)
    if "\r\n" in text and not lone_before:
        assert "\n" not in result.replace("\r\n", "")


_MARK = 987654321012345


@settings(deadline=None)
@given(text=_written(_documents.map(lambda data: {**data, "marked": _MARK, "after": [1.5, "é"]})), value=_values)
def test_bytes_outside_of_a_replaced_value_are_unchanged(text: str, value: Any) -> None:
    head, _, tail = text.partition(str(_MARK))
    result = set_value(text, ["marked"], value)
    assert result.startswith(head)
    assert result.endswith(tail)


@settings(deadline=None)
@given(text=_written(_documents.filter(lambda data: "new" not in data and data)), value=_values)
def test_an_inserted_key_leaves_all_text_before_and_after_it(text: str, value: Any) -> None:
    result = set_value(text, ["new"], value)
    tail = text[text.rindex("}") :]
    body = text[: -len(tail)].rstrip(" \t\r\n")
    assert result.startswith(body)
    assert result.endswith(tail)


@settings(deadline=None)
@given(text=_written())
def test_spans_cover_exactly_the_values(text: str) -> None:
    root = scan(text)
    assert _same(json.loads(text[root.start : root.end]), json.loads(text))
    for span in walk(root):
        value = json.loads(text[span.start : span.end])
        if span.members is not None:
            assert _same(value, {m.key: json.loads(text[m.value.start : m.value.end]) for m in span.members})
        if span.items is not None:
            assert _same(value, [json.loads(text[item.start : item.end]) for item in span.items])


HF_STYLE = """{
  "architectures": [
    "LlamaForCausalLMEagle3"
  ],
  "eagle_config": {
    "eagle_aux_hidden_state_layer_ids": [
      -1,
      2,
      30
    ],
    "use_aux_hidden_state": true
  },
  "rms_norm_eps": 1e-05,
  "note": "caf\\u00e9"
}
"""


def test_a_tall_list_stays_tall_and_grows_in_its_own_layout() -> None:
    result = set_value(HF_STYLE, IDS, [1, 2, 30, 58])
    assert result == HF_STYLE.replace("      -1,\n      2,\n      30\n", "      1,\n      2,\n      30,\n      58\n")


@pytest.mark.parametrize(
    ("colon", "old", "new"),
    [
        (": ", "[ -1,2,  30 ]", "[ 2,30,  58 ]"),
        (":", "[-1]", "[2,30,58]"),
        (": ", "[-1]", "[2, 30, 58]"),
        (" :", "[]", "[2,30,58]"),
        (": ", '"bad"', "[2, 30, 58]"),
        (": ", "[1,\n 2, 3]", "[2,\n 30, 58]"),
        (": ", "[\n  1\n ]", "[\n  2,\n  30,\n  58\n ]"),
    ],
)
def test_a_new_list_copies_the_layout_of_the_old_one(colon: str, old: str, new: str) -> None:
    document = f'{{"eagle_config"{colon}{{"eagle_aux_hidden_state_layer_ids"{colon}LIST}}}}'
    assert set_value(document.replace("LIST", old), IDS, [2, 30, 58]) == document.replace("LIST", new)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            '{\n  "a": 1\n}\n',
            '{\n  "a": 1,\n  "eagle_config": {\n    "eagle_aux_hidden_state_layer_ids": [\n      2,\n      30\n    ]\n'
            "  }\n}\n",
        ),
        (
            '{\r\n\t"a": [1, 2]\r\n}',
            '{\r\n\t"a": [1, 2],\r\n\t"eagle_config": {\r\n\t\t"eagle_aux_hidden_state_layer_ids": [2, 30]\r\n\t}\r\n}',
        ),
        ('{"a": 1}', '{"a": 1, "eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 30]}}'),
        ('{"a":1}', '{"a":1,"eagle_config":{"eagle_aux_hidden_state_layer_ids":[2,30]}}'),
        ("{}", '{"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 30]}}'),
        (
            '{\n    "eagle_config": null,\n    "b": [0]\n}',
            '{\n    "eagle_config": {\n        "eagle_aux_hidden_state_layer_ids": [2, 30]\n    },\n    "b": [0]\n}',
        ),
        (
            '{\n  "eagle_config": {},\n  "b": [0]\n}',
            '{\n  "eagle_config": {\n    "eagle_aux_hidden_state_layer_ids": [2, 30]\n  },\n  "b": [0]\n}',
        ),
        (
            '{\n  "eagle_config": {"use_aux_hidden_state": true}\n}',
            '{\n  "eagle_config": {"use_aux_hidden_state": true, "eagle_aux_hidden_state_layer_ids": [2, 30]}\n}',
        ),
        (
            '{\n  "b": [\n    0\n  ],\n  "eagle_config": {\n    "x": 1\n  }\n}',
            '{\n  "b": [\n    0\n  ],\n  "eagle_config": {\n    "x": 1,\n    "eagle_aux_hidden_state_layer_ids": [\n'
            "      2,\n      30\n    ]\n  }\n}",
        ),
    ],
)
def test_a_missing_key_is_inserted_in_the_layout_of_the_file(before: str, after: str) -> None:
    assert set_value(before, IDS, [2, 30]) == after


def test_numbers_escapes_and_infinity_keep_their_spelling() -> None:
    before = '{"e": 1e-05, "f": 1.50, "i": [0.0, Infinity, -Infinity, NaN], "u": "\\u00e9é\\/", "ids": [1]}'
    assert set_value(before, ["ids"], [2]) == before.replace("[1]", "[2]")


def test_new_text_is_escaped_if_and_only_if_the_file_escapes() -> None:
    assert set_value('{"a": "\\u00e9"}', ["b"], "ü") == '{"a": "\\u00e9", "b": "\\u00fc"}'
    assert set_value('{"a": "é"}', ["b"], "ü") == '{"a": "é", "b": "ü"}'


def test_an_equal_value_leaves_the_text_alone_but_one_is_not_true() -> None:
    before = '{"ids": [ 1, 2 ], "on": 1}'
    assert set_value(before, ["ids"], [1, 2]) == before
    assert set_value(before, ["on"], True) == before.replace("1}", "true}")


@pytest.mark.parametrize("text", ["[1]", "3", '"x"'])
def test_a_document_that_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="object"):
        set_value(text, ["a"], 1)
