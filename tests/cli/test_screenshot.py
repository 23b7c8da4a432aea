"""`screenshot` from a shell: a picture of the screen without a terminal, and what is refused before one is drawn."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from mission_tui.cli.verbs.screen_views import TABS
from mission_tui.tui.state.fleet_view_state import RUN_TABS
from tests.cli.test_json_documents import check
from tests.shell import Shell


@pytest.mark.slow
def test_the_screen_is_drawn_without_a_terminal(quick: Shell, tmp_path: Path) -> None:
    """All runs, or one; from the files alone too. The document says where it is; what was there is replaced."""
    (run,) = quick.launch("tiny", "--name", "first")
    quick.advancing(run)
    path = tmp_path / "screen.svg"
    for words, shown in (((), " live"), (("first",), "over timesteps")):
        check("screenshot", quick.json("screenshot", *words, "--out", str(path), "--size", "120x30"))
        said = " ".join(ElementTree.parse(path).getroot().itertext())
        assert "first" in said
        assert shown in said
    done = quick.typed("--readonly", "screenshot", "--out", str(path))
    assert (done.returncode, done.stdout.strip()) == (0, str(path)), done.stderr


@pytest.mark.slow
def test_any_view_is_drawn(quick: Shell, tmp_path: Path) -> None:
    """Each tab of a run by either of its names, the machine, and several runs compared; a group stands for its runs."""
    runs = quick.launch("tiny", "--seeds", "2", "--group", "both")
    for run in runs:
        quick.advancing(run)
    path = tmp_path / "view.svg"
    for words, shown in (
        ((runs[0], "--tab", "config"), "learning_rate"),
        ((runs[0], "--tab", "findings"), "what rules read"),
        ((runs[0], "--tab", "journal"), "preset tiny"),
        (("--tab", "machine"), "not ours"),
        (("both",), "compare 2 runs"),
        ((*runs, "--tab", "compare"), "compare 2 runs"),
    ):
        done = quick.typed("screenshot", *words, "--out", str(path), "--size", "120x40")
        assert done.returncode == 0, done.stderr
        assert shown in " ".join(ElementTree.parse(path).getroot().itertext()), words
    for words, said in (
        (("both", "--tab", "log"), "is of one run, and 2 are meant"),
        ((runs[0], "--tab", "compare"), "needs two runs or more"),
    ):
        done = quick.typed("screenshot", *words, "--out", str(path))
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    done = quick.typed("--readonly", "screenshot", runs[0], "--tab", "watch", "--out", str(path))
    assert (done.returncode, "a read-only screen starts none" in done.stderr) == (2, True), done.stderr


def test_every_tab_of_a_run_has_its_name() -> None:
    """The one that the screen shows."""
    assert TABS == RUN_TABS


def test_what_cannot_be_drawn_is_named(quick: Shell, tmp_path: Path) -> None:
    """The size, the format, the folder and the tab, before anything is asked for."""
    for words, said in (
        (("--out", str(tmp_path / "a.svg"), "--size", "9x9"), "from 40x10 to 500x200"),
        (("--out", str(tmp_path / "a.jpeg")), ".svg or .png"),
        (("--out", str(tmp_path / "no" / "a.svg")), "no folder"),
        (
            ("--out", str(tmp_path / "a.svg"), "--tab", "finding"),
            "several have compare; did you mean 'findings'?",
        ),
        (("--out", str(tmp_path / "a.svg"), "--tab", "log"), "--tab log is of a run: name it"),
    ):
        done = quick.typed("screenshot", *words)
        assert done.returncode == 2
        assert said in done.stderr
    assert not (tmp_path / "a.svg").exists()
