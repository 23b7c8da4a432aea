"""`rm` and `prune` from a shell: what they print, what they ask, and what they refuse."""

from __future__ import annotations

import json

import pytest

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
