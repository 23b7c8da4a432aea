"""Settings of a real training are changed while it runs, through the command line; the run is cloned and described."""

from __future__ import annotations

from typing import Any

import pytest

from tests.shell import Shell
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

WATCHED = 30
"""Updates after the change in which nothing may be found that is not so."""


def updates(fleet: Shell, run: str) -> list[dict[str, Any]]:
    """The run's updates so far."""
    return [row for row in fleet.rows(run) if row["kind"] == "update"]


def events(fleet: Shell, run: str, kind: str) -> list[dict[str, Any]]:
    """The run's events of this kind."""
    return [event for event in fleet.events(run) if event["kind"] == kind]


def test_a_learning_rate_is_set_on_a_live_run(fleet: Shell) -> None:
    """From the next update on, by its metrics; one break, on record twice; no finding in the 30 updates that follow."""
    # By torch: with kernels it is solved before the order comes, and a solved CartPole falls now and then by itself.
    fleet.environ["MISSION_TUI_KERNELS"] = "0"
    (run,) = fleet.launch("tiny", "--seed", "5", "--set", "ppo.n_steps=128", "--set", "ppo.n_epochs=4")
    until(lambda: len(updates(fleet, run)) >= 20, 60, "20 updates")
    before = {finding["id"] for finding in fleet.json("findings", run)["findings"]}
    assert fleet.json("set", run, "ppo.learning_rate=1e-4")["runs"][0]["accepted"] is True
    (change,) = until(lambda: [row for row in fleet.rows(run) if row["kind"] == "set"], 30, "the trainer takes it over")
    until(lambda: len(updates(fleet, run)) >= change["update"] + WATCHED, 90, "30 updates more")
    for row in updates(fleet, run):
        rate = 3e-4 if row["update"] <= change["update"] else 1e-4
        assert row["metrics"]["train/learning_rate"] == pytest.approx(rate), row["update"]
    assert [row["kind"] for row in fleet.rows(run)].count("set") == 1
    (event,) = events(fleet, run, "set")
    assert event["seq"] == change["number"]
    found = {finding["id"]: finding for finding in fleet.json("findings", run)["findings"]}
    # What else the machine did meanwhile is another matter: `throughput` sees that, and the new rate slows nothing.
    learning = {id_: it["sentence"] for id_, it in found.items() if id_ not in before and it["rule"] != "throughput"}
    assert learning == {}
    # Of a run that trains on, the second answer may know more than the first.
    assert fleet.typed("stop", run).returncode == 0
    fleet.typed("wait", run)
    found = {finding["id"]: finding for finding in fleet.json("findings", run)["findings"]}
    replayed = {finding["id"] for finding in fleet.json("findings", run, "--replay")["findings"]}
    assert replayed == set(found)
    assert fleet.view(run)["changes"][0]["update"] == change["update"]


def test_a_resume_goes_on_with_what_was_set(fleet: Shell) -> None:
    """Set, stopped and resumed: the next attempt learns with it from its first update."""
    # So many epochs that it is not solved, and its policy at a standstill, before the stop arrives.
    (run,) = fleet.launch("tiny", "--seed", "5", "--set", "ppo.n_epochs=100")
    until(lambda: len(updates(fleet, run)) >= 2, 60, "2 updates")
    assert fleet.typed("set", run, "ppo.learning_rate=1e-4").returncode == 0
    until(lambda: [row for row in fleet.rows(run) if row["kind"] == "set"], 30, "the trainer takes it over")
    assert fleet.typed("stop", run).returncode == 0
    fleet.typed("wait", run)
    done = fleet.typed("resume", run)
    assert done.returncode == 0, done.stderr
    second = until(lambda: [row for row in updates(fleet, run) if row["attempt"] == 2], 60, "another attempt")
    assert second[0]["metrics"]["train/learning_rate"] == pytest.approx(1e-4)


def test_what_set_says(fleet: Shell) -> None:
    """A warning is printed with what helps and exit code 2, and training goes on as it was; so is a wrong key."""
    (run,) = fleet.scripted().launch("tiny", "--seed", "5")
    fleet.advancing(run)
    warned = fleet.typed("set", run, "ppo.learning_rate=0.01")
    assert warned.returncode == 2
    assert "ppo.target_kl=" in warned.stderr
    assert "was not changed: add --accept to set it anyway" in warned.stderr
    wrong = fleet.typed("set", run, "ppo.lerning_rate=1e-4")
    assert wrong.returncode == 2
    assert "did you mean 'ppo.learning_rate'" in wrong.stderr
    assert events(fleet, run, "set") == []


def test_a_run_is_cloned_renamed_noted_and_labelled(fleet: Shell) -> None:
    """Each by its verb; a clone with weights is a branch; `status` shows all of it."""
    (run,) = fleet.scripted().launch("tiny", "--seed", "5")
    fleet.advancing(run)
    (made,) = fleet.json("clone", run, "--set", "ppo.learning_rate=1e-4", "--name", "slower")["runs"]
    fleet.advancing(made["id"])
    assert fleet.view("slower")["from"][0]["kind"] == "cloned"
    assert fleet.typed("checkpoint", run).returncode == 0
    until((fleet.root / run / "checkpoints" / "latest").exists, 20)
    branched = fleet.typed("clone", run, "--weights")
    assert branched.returncode == 0, branched.stderr
    assert fleet.view(branched.stdout.strip())["from"][0]["kind"] == "branch"
    for words in (
        ("rename", "slower", "calm"),
        ("note", "calm", "as", "in", "the", "paper"),
        ("label", "calm", "+a", "+b"),
    ):
        assert fleet.typed(*words).stdout == f"{made['id']}\n"
    assert fleet.typed("label", "calm", "-b").returncode == 0
    view = fleet.view("calm")
    assert (view["note"], view["labels"], view["seed"]) == ("as in the paper", ["a"], 5)
    assert fleet.typed("label", "calm", "x").returncode == 2
    assert fleet.typed("clone", run, "--checkpoint", "1").returncode == 2
