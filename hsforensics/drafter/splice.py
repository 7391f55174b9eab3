"""Change one value of a JSON text and leave every other byte as it is.

Key order, indentation, line ends, escapes and the spelling of numbers survive, because only the span of the value is
replaced. A new list copies the layout of the list it replaces; what is inserted copies its neighbours'.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from hsforensics.drafter.spans import Member, Span, scan, walk


@dataclass(frozen=True)
class Style:
    """How a JSON text is laid out.

    Attributes:
        newline: Line end, or ``""`` when the text is on one line.
        unit: One step of indentation.
        colon: Text between a key and its value, and
        comma: between two items on one line.
        tall_lists: Lists stand with one item on a line.
        ascii_only: The text escapes everything outside of ASCII.
    """

    newline: str
    unit: str
    colon: str
    comma: str
    tall_lists: bool
    ascii_only: bool

    def flat(self) -> Style:
        """The same style on one line."""
        return replace(self, newline="", tall_lists=False)


def set_value(text: str, path: Sequence[str], value: object) -> str:
    """Set the value at ``path`` of a JSON text, adding missing keys, and return the new text.

    Args:
        text: A JSON object that ``json.loads`` accepts, without doubled keys.
        path: Keys from the root down. A missing key, or one whose value is no object, is made an object.
        value: Anything that JSON can hold. An equal value in place leaves the text untouched.

    Raises:
        ValueError: The text holds no object, or the path is empty.
    """
    root = scan(text)
    if root.members is None or not path:
        raise ValueError("a path into a JSON object is needed")
    style = detect_style(text, root)
    span, depth = root, 0
    while depth < len(path) and (member := span.member(path[depth])):
        span, depth = member.value, depth + 1
    missing = path[depth:]
    if missing and span.members is not None:
        return _insert(text, span, missing[0], _wrap(missing[1:], value), style)
    return _replace(text, span, _wrap(missing, value), style)


def detect_style(text: str, root: Span) -> Style:
    """Read the layout off the root's first member and off the first list that is not empty."""
    first = root.members[0] if root.members else None
    gap = text[first.gap_start : first.key_start] if first else ""
    newline = "\r\n" if "\r\n" in gap else "\n" if "\n" in gap else ""
    colon = _colon(text, first) if first else ": "
    lists = [span for span in walk(root) if span.items]
    opening = text[lists[0].start + 1 : _items(lists[0])[0].start] if lists else newline
    return Style(
        newline=newline,
        unit=gap.rpartition("\n")[2] if newline else "",
        colon=colon,
        comma=", " if colon.endswith((" ", "\t")) else ",",
        tall_lists=bool(newline) and "\n" in opening,
        ascii_only=text.isascii(),
    )


def render(value: object, style: Style, indent: str = "") -> str:
    """Write a value in a style; lines after the first start with ``indent``."""
    if isinstance(value, dict) and value:
        pairs = [
            f"{_scalar(key, style)}{style.colon}{render(v, style, indent + style.unit)}" for key, v in value.items()
        ]
        return _block("{", pairs, "}", style, indent, tall=bool(style.newline))
    if isinstance(value, list | tuple) and value:
        items = [render(item, style, indent + style.unit) for item in value]
        return _block("[", items, "]", style, indent, tall=style.tall_lists)
    return _scalar(value, style)


def _block(opening: str, parts: list[str], closing: str, style: Style, indent: str, *, tall: bool) -> str:
    if not tall:
        return opening + style.comma.join(parts) + closing
    line = style.newline + indent + style.unit
    return opening + line + f",{line}".join(parts) + style.newline + indent + closing


def _scalar(value: object, style: Style) -> str:
    return json.dumps(value, ensure_ascii=style.ascii_only)


def _wrap(keys: Sequence[str], value: object) -> object:
    for key in reversed(keys):
        value = {key: value}
    return value


def _replace(text: str, span: Span, value: object, style: Style) -> str:
    old = text[span.start : span.end]
    if json.dumps(json.loads(old)) == json.dumps(value):
        return text
    if span.items and isinstance(value, list | tuple) and value:
        new = _relist(text, span, value, style)
    else:
        indent = _line_indent(text, span.start)
        new = render(value, style if _on_own_line(text, span) else style.flat(), indent)
    return text[: span.start] + new + text[span.end :]


def _relist(text: str, span: Span, value: Sequence[object], style: Style) -> str:
    """A list in the layout of the list that it replaces."""
    items = _items(span)
    opening = text[span.start + 1 : items[0].start]
    closing = text[items[-1].end : span.end - 1]
    gaps = [text[left.end : right.start] for left, right in pairwise(items)]
    gaps = gaps or [f",{opening}" if "\n" in opening else style.comma]
    gaps += gaps[-1:] * (len(value) - 1 - len(gaps))
    new = render(value[0], style.flat())
    for gap, item in zip(gaps, value[1:], strict=False):
        new += gap + render(item, style.flat())
    return f"[{opening}{new}{closing}]"


def _insert(text: str, span: Span, key: str, value: object, style: Style) -> str:
    """Add a member at the end of an object, laid out like the member before it."""
    if not span.members:
        lone = style if _on_own_line(text, span) else style.flat()
        return text[: span.start] + render({key: value}, lone, _line_indent(text, span.start)) + text[span.end :]
    last = span.members[-1]
    gap = text[last.gap_start : last.key_start]
    if "\n" in gap:
        indent = gap.rpartition("\n")[2]
    else:
        gap, indent, style = style.comma[1:], "", style.flat()
    pair = f"{_scalar(key, style)}{_colon(text, last)}{render(value, style, indent)}"
    return f"{text[: last.value.end]},{gap}{pair}{text[last.value.end :]}"


def _on_own_line(text: str, span: Span) -> bool:
    """Whether a value belongs to a member that starts its line, so that it may be written over several lines."""
    line = text[text.rfind("\n", 0, span.start) + 1 : span.start].strip()
    return line.startswith('"') and line.endswith(":") and "\n" in text[: span.start]


def _line_indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _colon(text: str, member: Member) -> str:
    between = text[member.key_end : member.value.start]
    return ": " if "\n" in between else between


def _items(span: Span) -> tuple[Span, ...]:
    return span.items or ()
