"""`mission-tui replay`: the fleet at a moment as one document, from the files alone."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from tests.shell import Shell


@pytest.mark.slow
def test_a_moment_is_one_document(quick: Shell) -> None:
    """In the form of `status`, with the moment and the ends of what is known; no supervisor is started for it."""
    (run,) = quick.launch("tiny")
    quick.advancing(run)
    assert quick.typed("supervisor", "stop", "--with-runs").returncode == 0
    rows = [row for row in quick.rows(run) if row["kind"] == "update"]
    moment = datetime.fromtimestamp(rows[0]["t"] + 1e-3, UTC)  # it is told in microseconds, rounded
    before = quick.json("replay", "--at", moment.isoformat())
    assert before["since"] <= before["t"] <= before["until"]
    assert [(it["id"], it["state"], it["update"]) for it in before["runs"]] == [(run, "running", 1)]
    first = quick.typed("replay", "--at", "2000-01-01", "--json")
    assert "no run existed before" in first.stderr
    assert json.loads(first.stdout)["t"] == before["since"]
    now = quick.json("replay", "--back", "0s")
    assert [(it["state"], it["outcome"]) for it in now["runs"]] == [("ended", "stopped")]
    assert now["supervisor"]["pid"] is None
    assert quick.typed("supervisor", "status").returncode == 69


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--at", "03:12", "--back", "10m"), "--at or --back, not both"),
        (("--at", "soon"), "'soon' is not a time; give one such as 03:12"),
        (("--at", "10m"), "--back 10m"),
        (("--back", "10"), "--back '10' is not a length of time"),
        (("--at", "2999-01-01"), "in the future"),
    ],
)
def test_what_names_no_moment_is_refused(quick: Shell, words: tuple[str, ...], said: str) -> None:
    """With what would."""
    quick.root.mkdir()
    done = quick.typed("replay", *words)
    assert done.returncode == 2
    assert said in done.stderr
