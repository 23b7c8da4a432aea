"""The YAML that SB3's zoo writes beside a run, read as text: block lists and tables, short flow ones, and scalars.

A tag such as `!!python/object/apply:...` is passed over unread, so nothing in a file is ever looked up or made.
Anchors, aliases and block scalars, which the zoo does not write, are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from mission_tui.errors import UsageError

_KEY = re.compile(
    r"""(?P<key>'[^']*'|"[^"]*"|[^\s'"\[\]{}#&*!|>%@`-][^:#]{0,200}?|-[^\s:][^:#]{0,200}?)\s*:(?:\s+(?P<rest>.*))?$"""
)
"""Keys are short: a line of many blanks would be tried at each of them."""

_TAG = re.compile(r"!\S*\s*")
_FLOW = re.compile(
    r"""\s*(?:(?P<mark>[\[\]{},:])|(?P<text>'(?:[^']|'')*'|"(?:[^"\\]|\\.)*"|[^\[\]{},:\s][^\[\]{},:]*))"""
)
_WORDS = {"": None, "~": None, "null": None, "true": True, "yes": True, "on": True, "false": False, "no": False}
_WORDS |= {"off": False}
_DEEPEST = 24
_ESCAPES = {"n": "\n", "t": "\t", "\n": ""}


class YamlError(UsageError):
    """A file is not the kind of YAML that is read here."""


@dataclass(slots=True)
class _Lines:
    """Lines that say something, each with its indent; a list's dash is cut off its first line as it is read."""

    lines: list[tuple[int, str]]
    at: int = 0
    depth: int = field(default=0)

    @property
    def next(self) -> tuple[int, str] | None:
        return self.lines[self.at] if self.at < len(self.lines) else None


def read_yaml(text: str) -> object:
    """What `text` says, as lists, dictionaries with text keys, numbers, truths, text and None. Raises `YamlError`."""
    said = [(len(line) - len(line.lstrip(" ")), line.strip()) for line in text.splitlines()]
    lines = _Lines([(indent, line) for indent, line in said if line and line[0] != "#" and line not in ("---", "...")])
    value = _block(lines, -1) if lines.lines else None
    if lines.at < len(lines.lines):
        raise YamlError(f"there is text after its end: {lines.lines[lines.at][1][:60]!r}")
    return value


def _block(lines: _Lines, above: int) -> object:
    """The value that begins at the next line, which stands deeper than column `above`."""
    lines.depth += 1
    if lines.depth > _DEEPEST:
        raise YamlError(f"its lists lie more than {_DEEPEST} deep in one another")
    assert lines.next is not None
    indent, text = lines.next
    try:
        if text.startswith("!"):
            return _tagged(lines, above)
        if _is_item(text):
            return _items(lines, indent)
        if _KEY.match(text):
            return _table(lines, indent)
        lines.at += 1
        return _scalar(lines, text, above)
    finally:
        lines.depth -= 1


def _tagged(lines: _Lines, above: int) -> object:
    """What a tag stands before: the rest of its line, or the lines below it."""
    indent, text = lines.lines[lines.at]
    rest = _TAG.sub("", text, count=1)
    if rest:
        lines.lines[lines.at] = (indent, rest)
        return _block(lines, above)
    lines.at += 1
    return None if lines.next is None or lines.next[0] < above else _block(lines, above)


def _items(lines: _Lines, indent: int) -> list[object]:
    items: list[object] = []
    while lines.next is not None and lines.next[0] == indent and _is_item(lines.next[1]):
        rest = lines.next[1][1:].lstrip()
        if rest:
            lines.lines[lines.at] = (indent + len(lines.next[1]) - len(rest), rest)
            items.append(_block(lines, indent))
            continue
        lines.at += 1
        items.append(_block(lines, indent) if lines.next is not None and lines.next[0] > indent else None)
    return items


def _table(lines: _Lines, indent: int) -> dict[str, object]:
    table: dict[str, object] = {}
    while lines.next is not None and lines.next[0] == indent and (match := _KEY.match(lines.next[1])):
        key, rest = str(_plain(match["key"])), _TAG.sub("", match["rest"] or "") if match["rest"] else ""
        lines.at += 1
        below = lines.next
        if rest and rest[0] != "#":
            table[key] = _scalar(lines, rest, indent)
        elif below is not None and (below[0] > indent or (below[0] == indent and _is_item(below[1]))):
            # A list may stand under its key without being indented.
            table[key] = _block(lines, indent)
        else:
            table[key] = None
    return table


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _scalar(lines: _Lines, text: str, above: int) -> object:
    """A value that may go on in lines deeper than `above`."""
    if text[0] in "&*|>%@`":
        raise YamlError(f"{text[:40]!r} is a kind of YAML that is not read here")
    parts = [text]
    while lines.next is not None and lines.next[0] > above:
        parts.append(lines.next[1])
        lines.at += 1
    text = " ".join(parts)
    if text[0] in "[{":
        return _flow(text)
    return _plain(text)


def _plain(text: str) -> object:
    if text[0] in "'\"":
        if len(text) < 2 or text[-1] != text[0]:
            raise YamlError(f"{text[:40]!r} has no closing quote")
        body = text[1:-1]
        if text[0] == "'":
            return body.replace("''", "'")
        return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), body)
    text = text.split(" #", 1)[0].rstrip()
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _flow(text: str) -> object:
    tokens = [match["mark"] or match["text"].strip() for match in _FLOW.finditer(text)]
    value, rest = _flow_value(tokens, 0, 0)
    if rest != len(tokens):
        raise YamlError(f"{text[:40]!r} has text after its closing bracket")
    return value


def _flow_value(tokens: list[str], at: int, depth: int) -> tuple[object, int]:
    if at >= len(tokens) or depth > _DEEPEST:
        raise YamlError("a bracket is not closed")
    if tokens[at] not in ("[", "{"):
        return (None, at) if tokens[at] in "]},:" else (_plain(tokens[at]), at + 1)
    closing = "]" if tokens[at] == "[" else "}"
    items: list[object] = []
    table: dict[str, object] = {}
    at += 1
    while at < len(tokens) and tokens[at] != closing:
        value, at = _flow_value(tokens, at, depth + 1)
        if closing == "}" and at < len(tokens) and tokens[at] == ":":
            table[str(value)], at = _flow_value(tokens, at + 1, depth + 1)
        else:
            items.append(value)
        if at < len(tokens) and tokens[at] == ",":
            at += 1
        elif at < len(tokens) and tokens[at] != closing:
            raise YamlError(f"there is no comma before {tokens[at][:40]!r}")
    if at >= len(tokens):
        raise YamlError("a bracket is not closed")
    return (table if closing == "}" else items), at + 1
