"""Where each value of a JSON text lies: a scanner that keeps positions, which the standard library's parser drops.

Expects text that ``json.loads`` has already accepted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

_SPACE = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BARE = re.compile(r"[^\s,\]}]+")


@dataclass(frozen=True)
class Span:
    """A value at ``text[start:end]``, with its members if it is an object, or its items if it is an array."""

    start: int
    end: int
    members: tuple[Member, ...] | None = None
    items: tuple[Span, ...] | None = None

    def member(self, key: str) -> Member | None:
        """The member of that name, or ``None`` (also when the value is no object)."""
        return next((member for member in self.members or () if member.key == key), None)


@dataclass(frozen=True)
class Member:
    """One ``"key": value`` of an object.

    Attributes:
        key: The key, unescaped.
        gap_start: End of the ``{`` or ``,`` before it: ``text[gap_start:key_start]`` is white space.
        key_start: First character of the quoted key, and
        key_end: the character after it.
        value: Where its value lies.
    """

    key: str
    gap_start: int
    key_start: int
    key_end: int
    value: Span


def scan(text: str) -> Span:
    """Positions of the whole document's value and of everything inside it."""
    return _value(text, _skip(text, 0))


def walk(span: Span) -> Iterator[Span]:
    """The value itself and every value inside it, in text order."""
    yield span
    for inner in (*(member.value for member in span.members or ()), *(span.items or ())):
        yield from walk(inner)


def _value(text: str, at: int) -> Span:
    if text[at] == "{":
        return _object(text, at)
    if text[at] == "[":
        return _array(text, at)
    return Span(at, _token_end(text, at, _STRING if text[at] == '"' else _BARE))


def _object(text: str, at: int) -> Span:
    members: list[Member] = []
    gap = at + 1
    place = _skip(text, gap)
    while text[place] != "}":
        key_end = _token_end(text, place, _STRING)
        value = _value(text, _skip(text, _skip(text, key_end) + 1))
        members.append(Member(json.loads(text[place:key_end]), gap, place, key_end, value))
        gap, place = _next_item(text, value.end)
    return Span(at, place + 1, members=tuple(members))


def _array(text: str, at: int) -> Span:
    items: list[Span] = []
    place = _skip(text, at + 1)
    while text[place] != "]":
        items.append(_value(text, place))
        _, place = _next_item(text, items[-1].end)
    return Span(at, place + 1, items=tuple(items))


def _next_item(text: str, end: int) -> tuple[int, int]:
    """After a value: the place behind its comma, and where the next item, or the closing bracket, begins."""
    place = _skip(text, end)
    if text[place] != ",":
        return place, place
    return place + 1, _skip(text, place + 1)


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _token_end(text: str, at: int, pattern: re.Pattern[str]) -> int:
    match = pattern.match(text, at)
    if match is None:
        raise ValueError(f"no JSON value at character {at}")
    return match.end()
