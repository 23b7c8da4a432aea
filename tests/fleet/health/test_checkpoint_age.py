"""`checkpoint-age`: what a crash would cost, by the run's own interval, and at once where saving fails."""

from __future__ import annotations

import pytest

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.metrics import CheckpointSaved, DutyFailed, SettingsChanged, TrainingStarted, UpdateDone
from mission_tui.fleet.health import HealthJudge, judge_of
from mission_tui.fleet.specs.preset import change
from tests.fleet.recorded import SPEC, STEPS

BEGUN = 1000.0
EVERY = change(SPEC, ("keep.checkpoint.every_s=60",))
WHY = "cannot save checkpoint /runs/r/checkpoints/1: Operation not permitted; it may be immutable"


class Run:
    """A run's records, a second of training each update unless said."""

    def __init__(self) -> None:
        self.judge: HealthJudge = judge_of(EVERY)
        self.seq, self.update, self.t = 1, 0, BEGUN
        self.failures = 0
        self.judge.feed(TrainingStarted(seq=1, attempt=1, t=BEGUN))

    def trains(self, updates: int, seconds: float = 1.0, waits_s: float = 0.0) -> list[Finding]:
        """So many updates; the findings of this rule that changed."""
        changed: list[Finding] = []
        for _ in range(updates):
            self.seq, self.update, self.t = self.seq + 1, self.update + 1, self.t + seconds + waits_s
            record = UpdateDone(
                self.seq, 1, self.update, self.update * STEPS, self.t, seconds * 0.75, seconds * 0.25, 1000.0
            )
            changed += self.judge.feed(record)
        return [finding for finding in changed if finding.rule == "checkpoint-age"]

    def saves(self) -> list[Finding]:
        self.seq += 1
        return self.judge.feed(
            CheckpointSaved(self.seq, 1, self.update, self.update * STEPS, self.t, f"{self.update}", "time")
        )

    def fails(self, duty: str = "checkpoint") -> list[Finding]:
        self.seq, self.failures = self.seq + 1, self.failures + 1
        return self.judge.feed(
            DutyFailed(self.seq, 1, self.update, self.update * STEPS, self.t, duty, WHY, self.failures)
        )


def test_a_checkpoint_that_could_not_be_saved_is_a_finding_at_once() -> None:
    """A warning with the reason, without waiting for the next row; three in a row are critical; a saved one ends it."""
    run = Run()
    run.trains(5)
    (opened,) = run.fails()
    assert (opened.rule, opened.severity, opened.cause) == ("checkpoint-age", "warning", WHY)
    assert "1 attempt" not in opened.sentence
    assert "the attempt to save one failed" in opened.sentence
    assert run.fails() == []
    (worse,) = run.fails()
    assert (worse.id, worse.severity) == (opened.id, "critical")
    assert "3 attempts to save one failed" in worse.sentence
    (over,) = run.saves()
    assert (over.id, over.state) == (opened.id, "cleared")
    assert run.trains(60) == []


@pytest.mark.parametrize(("updates", "severity"), [(121, None), (122, "warning"), (182, "critical")])
def test_one_that_is_too_old_is_a_finding_by_the_runs_own_interval(updates: int, severity: str | None) -> None:
    """Twice the interval of training, beyond an update, is a warning, thrice is critical; nothing has failed here."""
    run = Run()
    run.saves()
    changed = run.trains(updates)
    assert (changed[-1].severity if changed else None) == severity


def test_an_update_that_is_longer_than_the_interval_is_no_age() -> None:
    """Nothing can be saved within one: with a checkpoint after each update of ten minutes all is well."""
    run = Run()
    for _ in range(5):
        run.saves()
        assert run.trains(1, seconds=600.0) == []


def test_a_pause_or_a_clock_that_steps_is_no_age() -> None:
    """Hours between rows in which nothing was trained cost nothing in a crash."""
    run = Run()
    run.saves()
    assert run.trains(5, waits_s=10_000.0) == []


def test_records_that_never_speak_of_checkpoints_are_not_judged() -> None:
    """Logs of other trainers say nothing of what they save."""
    assert Run().trains(5000) == []


def test_other_duties_are_none_of_its_business() -> None:
    """Retention that fails costs no training."""
    run = Run()
    run.trains(3)
    assert run.fails("retention") == []


def test_settings_that_change_make_nothing_younger() -> None:
    """What is not saved is as old as before."""
    run = Run()
    run.saves()
    run.trains(115)
    run.seq += 1
    run.judge.feed(SettingsChanged(run.seq, 1, run.update, run.update * STEPS, run.t, 9, ("ppo.ent_coef=0.01",)))
    (opened,) = run.trains(10)
    assert opened.severity == "warning"
