"""HTML that is safe by the way it is made: whatever is not markup of ours is escaped, and nothing of it can be loaded.

Everything a run says is foreign text. It becomes an element's text or an attribute's value through `tag`, which cleans
and escapes it; only what `tag` returns is markup. A page's policy forbids every request and any script but ours.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from mission_tui.fleet.text import clean_lines

if TYPE_CHECKING:
    from mission_tui.cli.terminal_output import Table

_VOID = frozenset({"meta", "img", "br", "hr"})
_LINKS = {"href": ("#",), "src": ("data:image/", "data:video/mp4;")}
"""Attributes that load or lead somewhere, and what their values may begin with: this very page."""


class Html(str):
    """Markup of ours."""

    __slots__ = ()


Child = str | Html | Iterable["Child"] | None


def tag(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Html:
    """An element; in names of `attributes` a trailing `_` is dropped and others are `-`. None is left out.

    Raises `ValueError` for a link out of the page, and for an attribute that would run or style something.
    """
    said = "".join(_attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())
    if name in _VOID:
        return Html(f"<{name}{said}>")
    return Html(f"<{name}{said}>{join(*children)}</{name}>")


def _attribute(name: str, value: str | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    if name == "style" or name.startswith("on") or (name in _LINKS and not text.startswith(_LINKS[name])):
        raise ValueError(f"{name}={text[:40]!r} has no place in a report")
    return f' {name}="{escape(clean_lines(text), quote=True)}"'


def join(*children: Child) -> Html:
    """Markup of all `children`, text of theirs escaped."""
    parts: list[str] = []
    for child in children:
        if isinstance(child, Html):
            parts.append(child)
        elif isinstance(child, str):
            parts.append(escape(clean_lines(child), quote=False))
        elif child is not None:
            parts.append(join(*child))
    return Html("".join(parts))


def section(id_: str, title: str, *children: Html | None) -> Html:
    """A part of the page that the head links to."""
    return tag("section", tag("h2", title), children, id=id_)


def part(level: int, title: str, *children: Html | Sequence[Html] | None) -> Html:
    """A part of what is said of one run."""
    return tag("section", tag(f"h{level}", title), children, class_="part")


def folded(title: str, inside: Html) -> Html:
    """What few want to read; on paper it is open."""
    return tag("details", tag("summary", title), inside)


def definitions(rows: Iterator[tuple[str, str | Html]] | Sequence[tuple[str, str | Html]]) -> Html:
    """Names and what they are."""
    return tag("dl", (tag("div", tag("dt", name), tag("dd", said)) for name, said in rows))


def table_of(table: Table, caption: str) -> Html:
    """A table of the command line with the same cells."""
    numeric = [at for at, column in enumerate(table.columns) if column in table.numbers]
    return rows_of(table.columns, table.rows, caption, numeric)


def rows_of(
    heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str, numeric: Sequence[int] | range = ()
) -> Html:
    """A table that scrolls by itself where it is wider than the page."""

    def cell(name: str, at: int, text: str, **more: str) -> Html:
        return tag(name, text, class_="number" if at in numeric else None, **more)

    head = tag("tr", (cell("th", at, text, scope="col") for at, text in enumerate(heads)))
    body = (
        tag("tr", (cell("th", 0, row[0], scope="row"), *(cell("td", at, text) for at, text in enumerate(row[1:], 1))))
        for row in rows
    )
    table = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", body))
    return tag("div", table, class_="wide", tabindex="0", role="region", aria_label=caption)


def data_block(id_: str, value: Any) -> Html:
    """`value` as JSON for a script to read; nothing in it can end the element."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(f'<script type="application/json" id="{escape(id_)}">{text}</script>')


def page(title: str, body: Html, css: str, script: str) -> str:
    """The whole document. Its policy lets it load nothing, send nothing and run nothing but `script`."""
    policy = (
        f"default-src 'none'; img-src data:; media-src data:; style-src '{_digest(css)}'; "
        f"script-src '{_digest(script)}'; base-uri 'none'; form-action 'none'"
    )
    head = join(
        tag("meta", charset="utf-8"),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="generator", content=GENERATOR),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        Html(f"<style>{css}</style>"),
    )
    parts = (
        "<!DOCTYPE html>",
        '<html lang="en">',
        f"<head>{head}</head>",
        "<body>",
        body,
        f"<script>{script}</script>",
    )
    return "\n".join((*parts, "</body>", "</html>", ""))


GENERATOR = "mission-tui report"
"""By this a report is known as one, so that no other page is replaced unasked."""


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
