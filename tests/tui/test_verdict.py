"""What the sheet with a resume's verdict offers."""

from __future__ import annotations

from msgspec import structs

from mission_tui.fleet.resume.verdict import Change, Remedy, ResumeVerdict
from mission_tui.ipc.replies import VerdictReply
from mission_tui.tui.screens.verdict import Choice, VerdictScreen

REPLY = VerdictReply(
    re=1,
    run="a",
    accept_needed=True,
    verdict=ResumeVerdict(
        "warn",
        (
            Change(
                "env.n_envs",
                "4",
                "64",
                "warn",
                "why",
                remedies=(Remedy("hold-steps", "fewer"), Remedy("branch", "new")),
            ),
            Change("ppo.gamma", "0.99", "0.9", "warn", "why", remedies=(Remedy("restore", "as it was"),)),
        ),
    ),
)


def offered(choice: Choice | None = None) -> list[str]:
    """The lines that begin with a key."""
    lines = (strip.text.strip() for strip in VerdictScreen("a", REPLY, choice=choice).lines(80))
    return [line for line in lines if line[:1].isdigit()]


def test_each_remedy_has_a_key() -> None:
    """In the order of the changes."""
    assert offered() == ["1 hold-steps: fewer", "2 branch: new", "3 restore: as it was"]


def test_a_finished_run_is_asked_whether_it_trains_on() -> None:
    """It was said that it cannot be resumed, for changes from 60000 to 60000 that nobody had made."""
    again = Remedy("as-long-again", "121,440 steps in all: 60,000 more")
    total = Change("run.total_timesteps", "60000", "60000", "refuse", "it has finished", remedies=(again,))
    code = Change("code", "1f", "2e", "note", "other code than before")
    reply = VerdictReply(
        re=1, run="a", accept_needed=True, checkpoint="000061440", verdict=ResumeVerdict("refuse", (total, code))
    )
    sheet = VerdictScreen("a", reply)
    assert sheet._title == "a has finished: train on?"
    said = [strip.text.strip() for strip in sheet.lines(80)]
    assert said[0] == "done   run.total_timesteps: 60000"
    assert "1 as-long-again: 121,440 steps in all: 60,000 more" in said


def test_what_another_setting_contradicts_is_no_finished_budget() -> None:
    """It stays as it was too, and a number that fits is offered: the run has not finished for that."""
    fits = Remedy("nearest", "256 fits", ("ppo.batch_size=256",))
    batch = Change("ppo.batch_size", "4096", "4096", "refuse", "larger than the rollout of 2,048", remedies=(fits,))
    reply = structs.replace(REPLY, verdict=ResumeVerdict("refuse", (batch,)))
    sheet = VerdictScreen("a", reply, words=("env.n_envs=4",))
    assert sheet._title == "a cannot be resumed like this"
    assert any(strip.text.strip().startswith("refuse ppo.batch_size") for strip in sheet.lines(80))


def test_a_run_that_trains_is_stopped_for_it_and_the_sheet_says_so() -> None:
    """In the question and beside its key; a branch stops nothing."""
    sheet = VerdictScreen("a", REPLY, words=("env.n_envs=64",), stops=True)
    assert sheet._title == "Stop a and resume it with these changes?"
    assert sheet._hint.startswith("y stop it and resume like this")
    branch = VerdictScreen("a", REPLY, choice=Choice(branch=True), stops=True)
    assert (branch._title, "stop" in branch._hint) == ("Start a new run from a?", False)


def test_changes_that_nobody_asked_for_now_are_explained() -> None:
    """They were accepted by an attempt that saved nothing, so the checkpoint is from before them."""

    def said(*words: str) -> str:
        reply = structs.replace(REPLY, checkpoint="000086016")
        return "\n".join(strip.text for strip in VerdictScreen("a", reply, words=words).lines(80))

    assert "checkpoint 000086016 is from before these changes" in said()
    assert "from before" not in said("env.n_envs=64")


def test_why_it_cannot_start_now_is_said_beside_the_verdict() -> None:
    """The changes stand there all the same."""
    reply = structs.replace(REPLY, not_now="a cannot go on now: 9 MiB of memory are needed")
    said = [strip.text.strip() for strip in VerdictScreen("a", reply).lines(80)]
    assert said[0] == "a cannot go on now: 9 MiB of memory are needed"
    assert any("env.n_envs" in text for text in said)


def test_what_was_chosen_is_not_offered_again() -> None:
    """Though the warning may stay; a branch repairs nothing, so nothing more is offered with it."""
    assert offered(Choice(remedies=("hold-steps:env.n_envs",))) == ["1 branch: new", "2 restore: as it was"]
    assert offered(Choice(branch=True)) == []
