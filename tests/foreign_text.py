"""What the sources of the screen and of the command line may do with text that others wrote, and every way around that.

Foreign text reaches a picture by `strips.line`, `fit`, `words` and `rendered`, a toast by `app_context.toast`; each
makes it literal. What builds segments, Rich texts, toasts or actions of its own would show or carry out what others
wrote. The command line writes by `cli/terminal_output.py` and by nothing else.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["command_line_complaints", "complaints"]

_DOORS = {
    "Segment": {"strips.py", "glyphs.py", "cell_diff.py"},
    "Strip": {"strips.py", "cell_diff.py"},
    "Text": {"strips.py"},
    "Console": {"strips.py"},
    "notify": {"app_context.py"},
    "bell": {"snapshot_arrivals.py"},
    "copy_to_clipboard": {"app_context.py"},
    "run_action": {"app_context.py"},
    "print": set(),
}
"""By what is called, the modules that may: these make literal what they are given, or write what is made so."""

_PARSERS = {"from_markup", "from_ansi", "render_markup", "escape_markup"}
_IMPORTS = ("rich.markup", "rich.markdown", "rich.emoji", "textual.content", "textual.markup", "textual.visual")
_WIDGETS = {"Input", "TextArea", "Static"}
"""Textual's own that take no foreign text but what a person types over; `Static` only with constant words."""
_TITLES = {"border_title", "border_subtitle", "tooltip", "sub_title"}
_WRITERS = {("sys", "stdout"), ("sys", "stderr"), ("sys", "__stdout__"), ("sys", "__stderr__")}
_MAY_WRITE = {"entry.py", "driver.py"}
_DRIVES = {"snapshot_arrivals.py", "flow.py", "driver.py"}
_CALL = re.compile(r"^\s*(app|screen|focused)\.\w+\(")


def complaints(source: str, name: str) -> Iterator[str]:
    """What in the module `name` of the screen goes around the doors, each with its line."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for why in _about(node, Path(name).name, tree):
            yield f"{name}:{getattr(node, 'lineno', 0)}: {why}"


def _about(node: ast.AST, module: str, tree: ast.Module) -> Iterator[str]:
    match node:
        case ast.Call():
            yield from _about_call(node, module, tree)
        case ast.ImportFrom(module=str(origin), names=names):
            if origin.startswith(_IMPORTS):
                yield f"{origin} reads markup"
            if origin == "textual.widgets":
                yield from (f"{it.name} reads markup: draw lines" for it in names if it.name not in _WIDGETS)
        case ast.Import(names=names):
            yield from (f"{it.name} reads markup" for it in names if it.name.startswith(_IMPORTS))
        case ast.Assign(targets=[ast.Attribute(attr=attr)], value=value) if attr in _TITLES:
            if not _clean(value):
                yield f"{attr} without literal()"
        case ast.JoinedStr(values=[ast.Constant(value=str(head)), *_]) if _CALL.match(head):
            if any(isinstance(part, ast.FormattedValue) and part.conversion != ord("r") for part in node.values):
                yield "an action made of text without !r: what others wrote could be carried out"
        case ast.Attribute(value=ast.Name(id=owner), attr=attr) if (owner, attr) in _WRITERS:
            if module not in _MAY_WRITE:
                yield f"{owner}.{attr} is written around the picture"
        case ast.Attribute(attr="_driver") if module not in _DRIVES:
            yield "the driver is written around the picture"


def _about_call(call: ast.Call, module: str, tree: ast.Module) -> Iterator[str]:
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    owner = call.func.value.id if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) else ""
    door = owner if owner == "Text" else name
    if module not in _DOORS.get(door, {module}):
        yield f"{door}() is for {', '.join(sorted(_DOORS[door])) or 'nobody'}"
    if name in _PARSERS and owner != "Color":
        yield f"{name}() reads markup"
    for keyword in call.keywords:
        if keyword.arg in ("markup", "emoji", "highlight") and not _is_false(keyword.value):
            yield f"{keyword.arg} is not False"
    if name == "Static":
        if not all(isinstance(word, ast.Constant) for word in call.args):
            yield "Static() with words that are not constant"
        if "markup" not in {keyword.arg for keyword in call.keywords}:
            yield "Static() without markup=False"
    if name == "notify" and "markup" not in {keyword.arg for keyword in call.keywords}:
        yield "notify() without markup=False"
    if name == "add_row":
        assigned = _assigned(tree)
        yield from ("a cell that is not made by words()" for cell in call.args if not _is_cell(cell, assigned))
    if name == "add_column" and not all(isinstance(head, ast.Constant) for head in call.args):
        yield "a head that is not constant"


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _clean(node: ast.expr) -> bool:
    match node:
        case ast.Constant():
            return True
        case ast.Call(func=ast.Name(id="literal" | "fit")):
            return True
        case ast.IfExp(body=body, orelse=orelse):
            return _clean(body) and _clean(orelse)
        case ast.JoinedStr(values=values):
            return all(_clean(part.value) if isinstance(part, ast.FormattedValue) else True for part in values)
    return False


def _assigned(tree: ast.Module) -> dict[str, list[ast.expr]]:
    """What each name of the module is set to; of several names at once, each to the whole."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for name in ast.walk(ast.Tuple(elts=node.targets)):
                if isinstance(name, ast.Name):
                    found.setdefault(name.id, []).append(node.value)
    return found


def _is_cell(node: ast.expr, assigned: dict[str, list[ast.expr]]) -> bool:
    match node:
        case ast.Constant() | ast.Call(func=ast.Name(id="words")):
            return True
        case ast.Starred(value=value) | ast.GeneratorExp(elt=value) | ast.ListComp(elt=value):
            return _is_cell(value, assigned)
        case ast.Name(id=name):
            values = assigned.get(name, [])
            return any(isinstance(value, ast.GeneratorExp | ast.ListComp) and _is_cell(value, {}) for value in values)
        case ast.IfExp(body=body, orelse=orelse):
            return _is_cell(body, assigned) and _is_cell(orelse, assigned)
    return False


_WRITING = "terminal_output.py"
_CLICKS = {"echo", "secho", "style", "confirm", "prompt", "pause", "edit", "clear", "echo_via_pager", "progressbar"}
_CLICKS |= {"get_text_stream", "get_binary_stream", "open_file"}
_PRINTERS = {"print", "pprint", "print_exc", "print_exception", "print_tb", "print_last", "displayhook", "warn", "log"}
_DRAWS = {"progress.py"}
"""Rich's bars, of clean columns; its tables are drawn by the writer."""
_STREAM_TAKERS = {"write", "write_lines", "write_over", "write_picture"}
_STREAM_TAKERS |= {"TaskBar", "width_of", "board_on", "canvas_of", "show"}
_LOUD = {"rich", "logging", "pprint", "builtins"}
_STREAM_FACTS = {"isatty", "encoding", "fileno"}


def command_line_complaints(source: str, name: str) -> Iterator[str]:
    """What in the module `name` of the command line writes to a terminal past `cli/terminal_output.py`, each with its
    line.
    """
    module = Path(name).name
    if module == _WRITING:
        return
    tree = ast.parse(source)
    fine = {id(node) for parent in ast.walk(tree) for node in _streams_that_are_fine(parent)}
    for node in ast.walk(tree):
        for why in _past_the_writer(node, module, fine):
            yield f"{name}:{getattr(node, 'lineno', 0)}: {why}"


def _past_the_writer(node: ast.AST, module: str, fine: set[int]) -> Iterator[str]:
    match node:
        case ast.Call(func=ast.Name(id="print")):
            yield "print() is for nobody"
        case ast.Call(func=ast.Attribute(attr=attr)) if attr in _PRINTERS:
            yield f"{attr}() prints past the writer"
        case ast.Call(func=ast.Name(id="Html")) if module != "html_markup.py":
            yield "Html() is markup that nothing has escaped: tag() and join() make it"
        case ast.Call(func=ast.Name(id="Console" | "TextColumn" as what)):
            yield f"{what}() is made by the writer"
        case ast.Call(func=ast.Attribute(attr="write" | "writelines"), args=args):
            if not (len(args) == 1 and _is_stream(args[0])):
                yield "a stream is written past the writer"
        case ast.Call(func=ast.Attribute(value=ast.Name(id="csv"), attr="writer")) if module != "comparison.py":
            yield "CSV on a stream is CsvRows"
        case ast.Attribute(value=ast.Name(id="click"), attr=attr) if attr in _CLICKS:
            yield f"click.{attr} is for the writer"
        case ast.Attribute(value=ast.Name(id="sys"), attr=attr) if attr.strip("_") in ("stdout", "stderr"):
            if id(node) not in fine or attr.startswith("_"):
                yield f"sys.{attr} is given to somebody who may write it"
        case ast.Attribute(value=ast.Name(id="os"), attr="write" | "writev" | "system"):
            yield f"os.{node.attr} goes past the writer"
        case ast.ImportFrom(module=str(origin), names=names):
            named = {it.name for it in names}
            if origin in ("click", "sys", "os") and named & (_CLICKS | {"stdout", "stderr", "write"}):
                yield f"{origin} is imported part by part, past this rule"
            if origin.split(".")[0] in _LOUD and (module not in _DRAWS or named & {"Console", "TextColumn", "print"}):
                yield f"{origin} prints past the writer"
        case ast.Import(names=names):
            yield from (f"{it.name} prints past the writer" for it in names if it.name.split(".")[0] in _LOUD)


def _streams_that_are_fine(node: ast.AST) -> Iterator[ast.expr]:
    """Streams that are asked a fact, or handed to what writes through the writer."""
    match node:
        case ast.Attribute(value=value, attr=attr) if attr in _STREAM_FACTS:
            yield value
        case ast.Call(func=func, args=args, keywords=keywords):
            if (func.id if isinstance(func, ast.Name) else getattr(func, "attr", "")) in _STREAM_TAKERS:
                yield from (*args, *(keyword.value for keyword in keywords))
        case ast.Assign(targets=[ast.Name(id="stream")], value=ast.IfExp(body=body, orelse=orelse)):
            yield from (body, orelse)


def _is_stream(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="sys"), attr="stdout" | "stderr"):
            return True
        case ast.Attribute(attr="_stream") | ast.Name(id="stream"):
            return True
    return False
