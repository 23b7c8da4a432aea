"""`rm` and `prune` from a shell: what they print, what they ask, and what they refuse."""

from __future__ import annotations

import json
import sys
from io import StringIO
from pathlib import Path

import pytest

from mission_tui.cli.root import main
from mission_tui.cli.session import Session
from mission_tui.cli.verbs import bookkeeping
from mission_tui.ipc.replies import Removable, RemovableReply
from tests.shell import Shell

pytestmark = pytest.mark.timeout(60)


def over(quick: Shell) -> str:
    """An ended run."""
    (run,) = quick.launch("tiny")
    quick.advancing(run)
    quick.typed("kill", run)
    quick.typed("wait", run)
    return run


@pytest.mark.slow
def test_rm_moves_a_run_to_the_trash_and_undo_takes_it_back(quick: Shell) -> None:
    """The id on stdout, the way back on stderr; the trash is a table and a document."""
    run = over(quick)
    gone = quick.typed("rm", "@last")
    assert (gone.stdout, gone.returncode) == (f"{run}\n", 0)
    assert f"mission-tui rm --undo {run}" in gone.stderr
    assert "goes for good in" in quick.typed("rm", "--list").stdout
    (item,) = json.loads(quick.typed("rm", "--list", "--json").stdout)["trash"]
    assert (item["run"], item["checkpoint"]) == (run, None)
    assert item["size_bytes"] > 0
    assert quick.typed("rm", "--undo", run).stdout == f"{run}\n"
    assert quick.view(run)["outcome"] == "killed"


@pytest.mark.slow
def test_now_is_asked_for_twice(quick: Shell) -> None:
    """Without a terminal to ask at, `--now` needs `--yes`; and then nothing is left."""
    run = over(quick)
    refused = quick.typed("rm", "--now", run)
    assert (refused.returncode, "--yes" in refused.stderr) == (2, True)
    assert quick.view(run)["state"] == "ended"
    assert quick.typed("rm", "--now", "--yes", run).stdout == f"{run}\n"
    assert not (quick.root / run).exists()
    assert quick.typed("rm", "--list").stdout.endswith("the trash is empty\n")


@pytest.mark.slow
def test_prune_says_what_would_go_and_goes_only_with_yes(quick: Shell) -> None:
    """A dry run, a missing --yes, and at last the document of what went."""
    run = over(quick)
    assert "nothing is that old" in quick.typed("prune", "--older", "1d", "--yes").stdout
    assert "would go: 1" in quick.typed("prune", "--older", "0m", "--dry-run").stdout
    assert "has other checkpoints than those that stay" in quick.typed("prune", run, "--keep", "best").stdout
    unasked = quick.typed("prune", "--older", "0m")
    assert (unasked.returncode, "--yes" in unasked.stderr) == (2, True)
    assert quick.view(run)["state"] == "ended"
    gone = json.loads(quick.typed("prune", "--older", "0m", "--yes", "--json").stdout)
    assert (gone["removed"], [item["run"] for item in gone["items"]]) == (True, [run])
    assert gone["bytes"] == gone["items"][0]["size_bytes"] > 0


@pytest.mark.parametrize("tty", [False, True])
def test_a_terminal_is_shown_how_far_a_long_prune_is(
    tty: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was shown goes some at a time, on a line of stderr that is empty again when it is done."""
    items = tuple(Removable(run=f"r{number}", name="n", checkpoint=None, size_bytes=3) for number in range(5))
    asked: list[tuple[str, ...]] = []

    def answered(_: Session, runs: tuple[str, ...], *_words: object, remove: bool, **_flags: object) -> RemovableReply:
        asked.append(runs)
        return RemovableReply(re=1, items=tuple(it for it in items if not remove or it.run in runs), kept_s=1.0)

    monkeypatch.setattr(bookkeeping, "_prune", answered)
    monkeypatch.setattr(bookkeeping, "_AT_A_TIME", 2)
    stream = StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: tty)
    monkeypatch.setattr(sys, "stderr", stream)
    words = ["--runs-dir", str(tmp_path), "prune", "--older", "1d", "--yes"]
    assert main(words) == 0
    assert asked == [(), ("r0", "r1"), ("r2", "r3"), ("r4",)]
    assert "removed 5 (15B)" in capsys.readouterr().out
    steps = ["adding up what would go", *(f"removing: {at} of 5 runs" for at in (0, 2, 4))]
    assert [it for it in stream.getvalue().split("\r\x1b[K") if it] == (steps if tty else [])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("rm",), "name at least one run"),
        (("rm", "--undo", "--now", "x"), "give one of them"),
        (("rm", "nobody"), "no run matches"),
        (("rm", "--undo", "nobody"), "the trash is empty"),
        (("prune", "--older", "long"), "is not a length of time"),
        (("prune", "--older", "1d", "--keep", "lest"), "did you mean"),
    ],
)
def test_mistakes_are_named_and_change_nothing(quick: Shell, words: tuple[str, ...], said: str) -> None:
    """One line that says what to write instead, and exit code 2."""
    done = quick.typed(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
