"""Screen and command line show foreign text through the doors that make it harmless, and through nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.foreign_text import command_line_complaints, complaints

SCREEN = Path(__file__).parents[2] / "mission_tui" / "tui"
COMMAND_LINE = Path(__file__).parents[2] / "mission_tui" / "cli"
AROUND = (
    "Segment(view.name)",
    "Strip([part])",
    "Text(view.name, style=INK)",
    "Text.from_markup(view.note)",
    "Text.assemble(view.name)",
    "console = Console()",
    "app.notify(view.name, markup=False)",
    "line(parts, markup=True)",
    "from textual.widgets import Label",
    "from rich.markdown import Markdown",
    "import rich.markup",
    "Static('preset')",
    "Static(view.name, markup=False)",
    "table.add_row(view.name)",
    "table.add_row(f'{view.name}')",
    "cells = [view.name]\ntable.add_row(*cells)",
    "table.add_column(view.name)",
    "widget.border_title = view.name",
    "widget.tooltip = f'run {view.name}'",
    "click = f\"screen.choose('{view.id}')\"",
    "await app_context.press(f'app.do({name})')",
    "app.run_action(view.note)",
    "print(view.name)",
    "sys.stdout.write(view.name)",
    "app._driver.write(view.name)",
    "app.bell()",
)
THROUGH = (
    "line([(view.name, INK)], width)",
    "table.add_row('', words((view.name, INK)), *(words((name, INK)) for name in names))",
    "cells = (words((name, INK)) for name in names)\ntable.add_row(*cells)",
    "click = f'screen.choose({view.id!r})'",
    "widget.border_title = literal(view.name)",
    "Static('preset', markup=False)",
    "Strip.blank(width)",
)


@pytest.mark.slow
def test_the_screen_shows_foreign_text_only_through_its_doors() -> None:
    """No markup is read, no Rich text, toast, title, action or byte for the terminal is made around them."""
    modules = sorted(SCREEN.rglob("*.py"))
    assert len(modules) > 40
    found = [why for path in modules for why in complaints(path.read_text(), str(path.relative_to(SCREEN)))]
    assert found == []


@pytest.mark.parametrize("source", AROUND)
def test_what_goes_around_a_door_is_found(source: str) -> None:
    """One complaint at least for each way in which foreign text could be read as markup, as an action or as bytes."""
    assert list(complaints(source, "widgets/new.py"))


@pytest.mark.parametrize("source", THROUGH)
def test_what_goes_through_a_door_is_fine(source: str) -> None:
    """The house's own way of showing text is not complained about."""
    assert list(complaints(source, "widgets/new.py")) == []


PAST_THE_WRITER = (
    "Html(view.name)",
    "print(view.name)",
    "click.echo(view.name)",
    "click.secho(view.name, bold=True)",
    "words = click.style(view.name, fg='red')",
    "click.confirm(view.name)",
    "from click import echo",
    "sys.stdout.write(view.name)",
    "sys.stdout.buffer.write(raw)",
    "sys.__stderr__.write(view.name)",
    "stream.write(view.name)",
    "out = sys.stdout",
    "json.dump(facts, sys.stdout)",
    "csv.writer(sys.stdout)",
    "from sys import stdout",
    "os.write(1, raw)",
    "console = Console(file=stream)",
    "from rich.console import Console",
    "import rich",
    "progress.console.print(view.name)",
    "column = TextColumn('{task.description}')",
    "traceback.print_exc()",
    "import logging",
    "warnings.warn(view.name)",
)
THROUGH_THE_WRITER = (
    "write(view.name)",
    "write(Styled(view.name, bold=True), stream=sys.stderr)",
    "table.write(sys.stdout)",
    "stream = sys.stderr if as_json else sys.stdout\ntable.write(stream)",
    "if sys.stdout.isatty():\n    write_over(note, sys.stderr)",
    "with TaskBar('episodes', sys.stderr) as bar:\n    bar.say(line)",
)


def test_the_command_line_writes_through_one_module() -> None:
    """Whatever a verb says is cleaned in one place, so that no verb can forget it."""
    modules = sorted(COMMAND_LINE.rglob("*.py"))
    assert len(modules) > 20
    named = [(path.read_text(), str(path.relative_to(COMMAND_LINE))) for path in modules]
    assert [why for source, name in named for why in command_line_complaints(source, name)] == []


@pytest.mark.parametrize("source", PAST_THE_WRITER)
def test_what_goes_past_the_writer_is_found(source: str) -> None:
    """One complaint at least for each way to a terminal that cleans nothing."""
    assert list(command_line_complaints(source, "verbs/new.py"))


@pytest.mark.parametrize("source", THROUGH_THE_WRITER)
def test_what_goes_through_the_writer_is_fine(source: str) -> None:
    """The command line's own way of writing is not complained about."""
    assert list(command_line_complaints(source, "verbs/new.py")) == []
