"""`findings`: as judged live and as the files give them, marks, and following an advice."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.test_json_documents import check
from tests.shell import Shell
from tests.waiting import until


def findings(shell: Shell, run: str, *words: str) -> list[dict[str, Any]]:
    """The findings of the run, as `--json` prints them."""
    document = shell.json("findings", run, *words)
    check("findings", document)
    found = document["findings"]
    assert isinstance(found, list)
    return found


def hot(shell: Shell) -> str:
    """A run whose every update (u is 0.5) is over its own strict limit, and which has been found out."""
    strict = [f"keep.health.kl-persistent.{key}=0.1" for key in ("warning_leave", "warning")]
    (run,) = shell.launch("tiny", "--name", "hot", "--set", strict[0], "--set", strict[1])
    until(lambda: findings(shell, run), 20, "the run is found out")
    return run


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--silence", "hang"), "name the run"),
        (("r", "--silence", "hang", "--unmute", "hang"), "one of --replay"),
        (("r", "--replay", "--acknowledge", "x"), "one of --replay"),
        (("r", "--accept"), "--accept belongs to --apply"),
    ],
)
def test_contradictory_words_are_refused_before_anything_is_asked(
    shell: Shell, words: tuple[str, ...], complaint: str
) -> None:
    """A mark needs a run, and one deed at a time is done; no supervisor is started to find that out."""
    done = shell.typed("findings", *words)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert shell.typed("supervisor", "status").returncode == 69


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_a_replay_tells_what_was_judged_live(quick: Shell) -> None:
    """Id, severity, words and evidence of an ended run are the same from its files; also for all runs at once."""
    run = hot(quick)
    quick.typed("stop", run)
    quick.typed("wait", run)
    live = findings(quick, run)
    assert {it["rule"] for it in live} >= {"kl-persistent"}
    assert findings(quick, run, "--replay") == live
    (entry,) = quick.json("findings", "--replay")["runs"]
    assert entry["findings"] == live
    quick.launch("tiny", "--seeds", "2", "--group", "pair")
    assert [entry["findings"] for entry in quick.json("findings", "pair", "--replay")["runs"]] == [[], []]
    assert live[0]["sentence"] in quick.typed("findings", run, "--replay").stdout


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_a_replay_says_what_it_cannot_read(quick: Shell) -> None:
    """A damaged line and a spec that is gone are said on stderr; what is left is judged."""
    run = hot(quick)
    quick.typed("stop", run)
    quick.typed("wait", run)
    path = quick.root / run / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:3], '{"seq":4,"kind":"upd\n', *lines[4:]]))
    done = quick.typed("findings", run, "--replay", "--json")
    assert "metrics.jsonl" in done.stderr
    assert json.loads(done.stdout)["findings"]
    (quick.root / run / "spec.toml").write_text("not toml")
    done = quick.typed("findings", run, "--replay", "--json")
    assert "attempt 1 is not judged" in done.stderr
    assert json.loads(done.stdout)["findings"] == []


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_marks_are_shown_and_taken_back(quick: Shell) -> None:
    """An acknowledged finding and a silenced rule say so in the list, live and replayed; unmuting opens it again."""
    run = hot(quick)
    one = next(it["id"] for it in findings(quick, run) if it["rule"] == "kl-persistent")

    def state(*words: str) -> str:
        return next(str(it["state"]) for it in findings(quick, run, *words) if it["id"] == one)

    check("stop", quick.json("findings", run, "--acknowledge", one))
    assert (state(), state("--replay")) == ("acknowledged", "acknowledged")
    assert quick.typed("findings", run, "--silence", "kl-persistent").stdout.split() == [run]
    assert state() == "silenced"
    quick.typed("findings", run, "--unmute", "kl-persistent")
    assert state() == "acknowledged"
    done = quick.typed("findings", run, "--silence", "kl-persistnt")
    assert (done.returncode, "kl-persistent" in done.stderr) == (2, True)
    assert quick.typed("findings", run, "--acknowledge", "kl-9").returncode == 2


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_an_advice_is_applied_as_a_resume_is(quick: Shell) -> None:
    """Without a checkpoint from before it is refused with the reason, and the run goes on as it was."""
    run = hot(quick)
    one = findings(quick, run)[0]["id"]
    done = quick.typed("findings", run, "--apply", one)
    assert done.returncode == 1
    assert "no checkpoint from before" in done.stderr
    assert quick.view(run)["attempt"] == 1
