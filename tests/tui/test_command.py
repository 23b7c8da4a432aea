"""`;` and the palette carry out lines of the command line; `!` lends the terminal to a shell."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from mission_tui.tui.screens.sheets import ErrorScreen, OutputScreen
from tests.tui.fleets import a_fleet, a_run
from tests.tui.stage import staged


@pytest.mark.slow
async def test_the_palette_begins_a_verb_and_its_words_are_shown() -> None:
    """`paths --help` says how it is used, and Escape goes back to the fleet."""
    async with staged() as stage:
        await stage.press("colon", *"paths", "enter")
        await stage.shows("carries it out")
        await stage.press(*"--help", "enter")
        await stage.until(lambda: isinstance(stage.screen, OutputScreen))
        await stage.shows("Usage: mission-tui paths")
        await stage.until(lambda: "Esc back" in stage.text())
        await stage.press("escape")
        assert len(stage.app.screen_stack) == 1


async def test_a_line_that_fails_says_with_what() -> None:
    """The exit code stands below the words."""
    async with staged() as stage:
        await stage.press("semicolon", *"lunch", "enter")
        await stage.shows("exit code 2")


async def test_an_open_quote_is_asked_for_again_with_what_was_typed() -> None:
    """A long line is corrected, and not typed anew."""
    async with staged() as stage:
        await stage.press("semicolon", *'note "a', "enter")
        await stage.shows("not complete: no closing quotation")
        await stage.shows('note "a')


async def test_of_an_output_without_an_end_the_newest_is_kept() -> None:
    """A verb that prints for ever costs neither memory nor time; what is missing is said."""
    async with staged() as stage:
        screen = OutputScreen(stage.app.app_context, ["--version"], "/home/ada/lab/runs")
        screen._keep("a" * (1 << 20))
        assert len(screen._text) == 1 << 18
        screen._keep("\n".join(map(str, range(5000))))
        assert screen._text.startswith("3000\n")
        assert "not kept here" in screen.lines(80)[0].text


async def test_a_shell_is_only_for_a_folder_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins in the run's folder; of another machine's run it is said that there is none."""
    view = structs.replace(a_run("near-1"), run_dir=str(tmp_path))
    monkeypatch.setenv("SHELL", "/usr/bin/env")
    async with staged(a_fleet((a_run("far-2"), view))) as stage:
        lent: list[object] = []
        monkeypatch.setattr(stage.app.app_context, "suspend", lambda meanwhile: lent.append(meanwhile().args))
        await stage.press("exclamation_mark")
        await stage.until(lambda: any("is not a folder" in toast for toast in stage.toasts()))
        await stage.press("down", "exclamation_mark")
        await stage.until(lambda: lent == [["/usr/bin/env"]])


async def test_a_line_that_no_program_can_be_given_is_refused_in_words() -> None:
    """A NUL that was pasted is no error of the screen."""
    async with staged() as stage:
        stage.app.push_screen(OutputScreen(stage.app.app_context, ["status", "a\x00b"], "/home/ada/lab/runs"))
        await stage.until(lambda: any("could not be started" in toast for toast in stage.toasts()), "a toast")
        assert not isinstance(stage.screen, ErrorScreen)
