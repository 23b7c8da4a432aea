"""Settings that change while a run trains are one break: windows start anew, and rules read the new settings."""

from __future__ import annotations

from mission_tui.fleet.events.metrics import SettingsChanged, TrainingStarted
from mission_tui.fleet.health import HealthJudge, Settings, judge_of
from mission_tui.fleet.specs.thresholds import HealthKeep
from tests.fleet.recorded import SPEC, update

CALM, HOT = 0.01, 0.12


def set_after(update_: int, *words: str) -> SettingsChanged:
    """`words` taken over after update `update_` of attempt 1."""
    return SettingsChanged(900, 1, update_, update_ * 1024, 100.5 + update_, 4, words)


def fed(judge: HealthJudge, kls: dict[int, float]) -> list[tuple[str, str]]:
    """State and id of what the updates with these KLs bring, in order."""
    return [
        (finding.state, finding.id)
        for number, kl in kls.items()
        for finding in judge.feed(update(number, approx_kl=kl, clip_range=0.2, ret=1.0))
    ]


def test_what_was_open_is_over_and_old_rows_count_for_nothing() -> None:
    """Five hot updates open an incident; it is cleared at the change, and four more hot ones do not open another."""
    judge = judge_of(SPEC)
    judge.feed(TrainingStarted(1, 1, 100.0))
    assert fed(judge, dict.fromkeys(range(1, 9), HOT))[0] == ("open", "kl-persistent-1-5")
    (over,) = judge.feed(set_after(8, "ppo.learning_rate=1e-4"))
    assert (over.state, over.last_update) == ("cleared", 8)
    assert fed(judge, dict.fromkeys(range(9, 13), HOT)) == []
    assert fed(judge, {13: HOT}) == [("open", "after-change-1-9"), ("open", "kl-persistent-1-13")]


def test_causes_come_from_the_new_settings() -> None:
    """The cause names the learning rate that was set, not the one that the run began with."""
    judge = judge_of(SPEC)
    judge.feed(set_after(2, "ppo.learning_rate=0.004", "ppo.target_kl=0.5"))
    fed(judge, dict.fromkeys(range(3, 11), HOT))
    assert all("0.004" in finding.cause for finding in judge.findings)
    assert [finding.rule for finding in judge.findings] == ["after-change", "kl-persistent"]


def test_a_change_of_an_earlier_attempt_or_of_nonsense_breaks_nothing() -> None:
    """A late line of attempt 1 is no news in attempt 2; words that fit no spec leave the settings as they are."""
    judge = judge_of(SPEC)
    judge.feed(TrainingStarted(1, 2, 100.0))
    for number in range(1, 9):
        judge.feed(update(number, attempt=2, approx_kl=HOT, clip_range=0.2))
    assert judge.feed(set_after(3, "ppo.learning_rate=1e-4")) == []
    assert [finding.state for finding in judge.findings] == ["open"]
    lone = HealthJudge(Settings(), HealthKeep())
    assert lone.feed(set_after(1, "no.such=1")) == judge_of(SPEC).feed(set_after(1, "no.such=1")) == []
