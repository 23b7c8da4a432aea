"""What a finding advises, from what to what, and how often that helped."""

from __future__ import annotations

import pytest
from msgspec import structs

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.specs.spec import Schedule
from mission_tui.present import run_settings
from mission_tui.present.run_settings import proof, setting_changes
from tests.tui.fake_client import a_spec

SPEC = a_spec()
RUNS_WITH = {"ppo": {"n_epochs": 6, "batch_size": 1024, "learning_rate": 0.1}}


def test_each_setting_says_what_it_was_and_what_the_updates_become() -> None:
    """8,192 steps in batches of 1,024 are 8 gradient steps an epoch."""
    said = list(setting_changes(("ppo.n_epochs=3", "ppo.learning_rate=0.05"), SPEC, RUNS_WITH))
    assert said == ["n_epochs 6 → 3: 24 gradient steps an update, not 48", "learning_rate 0.1 → 0.05"]


def test_what_keeps_the_gradient_steps_says_so() -> None:
    """A batch that covers as many minibatches as before changes nothing there."""
    assert list(setting_changes(("ppo.batch_size=1100",), SPEC, RUNS_WITH)) == [
        "batch_size 1024 → 1100: keeps 48 gradient steps an update"
    ]


def test_where_nothing_is_recorded_what_was_asked_counts() -> None:
    """A schedule as one setting, and what nobody wrote as its default."""
    falling = structs.replace(SPEC, ppo=structs.replace(SPEC.ppo, learning_rate=Schedule(start=0.001), target_kl=None))
    words = ("ppo.learning_rate=5e-4", "ppo.target_kl=0.02")
    assert list(setting_changes(words, falling, {})) == [
        "learning_rate 0.001 → 0 linear → 5e-4",
        "target_kl its default → 0.02",
    ]


def test_advice_says_how_often_it_helped_where_enough_trainings_followed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the rule and the first setting; nothing is said of two, or of advice that has no setting. What all rules
    advise alike is no evidence for what one of them advises by itself.
    """
    finding = Finding("x", "kl-persistent", "warning", 1, 2, "", "", "halve it", ("ppo.learning_rate=0.001",))
    key = ("kl-persistent", "ppo.learning_rate")
    monkeypatch.setattr(run_settings, "FOLLOWED", {key: (7, 0, 8)})
    assert proof(finding) == "this helped in 7 of 8 trainings that were made sick to measure it"
    assert proof(structs.replace(finding, advice_set=())) == ""
    monkeypatch.setattr(run_settings, "FOLLOWED", {key: (4, 4, 9)})
    assert proof(finding) == "this helped in 4 of 9 trainings that were made sick to measure it and made 4 worse"
    monkeypatch.setattr(run_settings, "FOLLOWED", {key: (1, 0, 6)})
    assert proof(finding).startswith("no cure is known: this helped in 1 of 6 trainings")
    usual = {key: (1, 0, 17), ("any", "ppo.learning_rate"): (90, 0, 90)}
    monkeypatch.setattr(run_settings, "FOLLOWED", usual)
    assert proof(finding).startswith("no cure is known: this helped in 1 of 17 trainings")
    lower = structs.replace(finding, advice="lower the learning rate to what so many gradient steps can bear")
    assert proof(lower).startswith("this helped in 90 of 90 trainings")
    monkeypatch.setattr(run_settings, "FOLLOWED", {key: (2, 0, 2)})
    assert proof(finding) == ""
