"""`film` from a shell: which checkpoints are meant, what is refused at once, and what stopping leaves."""

from __future__ import annotations

import importlib.util
import signal
from pathlib import Path

import psutil
import pytest

from mission_tui.cli.verbs.playing import alone, chosen
from mission_tui.errors import UsageError
from tests.cli.test_json_documents import check
from tests.shell import Shell
from tests.waiting import until


def test_which_checkpoints_are_meant() -> None:
    """All, so many, or those that are named; a small number is how many, a large one a step."""
    assert chosen("all") == ((), 0)
    assert chosen("4") == ((), 4)
    assert chosen("latest") == ((), 1)
    assert chosen("2048, best,2048") == (("2048", "best"), 1)
    assert chosen("000204800") == (("000204800",), 1)
    for nothing in ("0", ",", ""):
        with pytest.raises(UsageError, match="--checkpoints"):
            chosen(nothing)


def test_a_growth_of_one_checkpoint_says_how_to_keep_more() -> None:
    """Asked for all or several, not for the newest or named ones."""
    one, two = ({"episodes": [{"checkpoint": name} for name in names]} for names in (["512", "512"], ["512", "1024"]))
    assert "keep.checkpoint.every_steps" in alone(0, one)
    assert "keep.checkpoint.last" in alone(4, one)
    assert (alone(1, one), alone(0, two)) == ("", "")


def test_what_cannot_be_filmed_is_one_sentence_and_starts_nothing(quick: Shell) -> None:
    """A name that says no kind of film, a folder that is none, a run that is not there or has no checkpoint."""
    (quick.cwd / "file").write_text("")
    refusals = {
        ("@last", "--out", "play.mpg"): "a film ends in one of .gif, .mp4, .webp; did you mean '.mp4'?",
        ("@last", "--out", "file/play.gif"): "file is not a folder",
        ("@last", "--out", "play.gif", "--checkpoints", "0"): "say how many, from 1 to 12",
        ("nobody", "--out", "play.gif"): "nobody",
    }
    for words, sentence in refusals.items():
        done = quick.typed("film", *words)
        assert (done.returncode != 0, sentence in done.stderr, done.stderr.count("\n")) == (True, True, 1), done.stderr
    (run,) = quick.launch("tiny", "--set", "run.total_timesteps=5_000_000")
    assert "has no checkpoint yet" in quick.typed("film", run, "--out", "play.gif").stderr
    assert [path.name for path in quick.cwd.glob("*.gif")] == []


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.skipif(importlib.util.find_spec("PIL") is None, reason="needs the extra: pip install '.[film]'")
def test_a_film_that_is_stopped_leaves_nothing(shell: Shell, tmp_path: Path) -> None:
    """Ctrl-C while it is drawn: no file and no process stay; asked again, it is made, and its document is the one in
    the reference.
    """
    words = ("--name", "cart", "--set", "run.total_timesteps=512", "--set", "keep.checkpoint.every_steps=256")
    assert shell.preloaded()("launch", "tiny", *words, timeout_s=120).returncode == 0
    assert shell("wait", "cart", timeout_s=120).returncode == 0

    def filming() -> bool:
        named = [it for it in psutil.process_iter(["cmdline", "cwd"]) if it.info["cwd"] == str(shell.cwd)]
        return any("".join(it.info["cmdline"] or ()).startswith("mission-tui film of ") for it in named)

    with shell.start("film", "cart", "--out", "films/long.gif", "--episodes", "100", "--fps", "2") as process:
        until(filming, 60, "it plays")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    until(lambda: not filming(), 20, "its process ended with it")
    assert not (shell.cwd / "films").exists()
    check(
        "film", shell.json("film", "cart", "--out", "films/short.gif", "--checkpoints", "2", "--fps", "2", timeout_s=60)
    )
    assert [path.name for path in (shell.cwd / "films").iterdir()] == ["short.gif"]
