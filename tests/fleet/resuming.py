"""Resumes for the tests of their rulings: a run as it was, `--set` words, and the one change that is looked at."""

from __future__ import annotations

from mission_tui.fleet.resume.judge import judge_resume
from mission_tui.fleet.resume.sides import ResumeFacts
from mission_tui.fleet.resume.verdict import Change, ResumeVerdict
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Spec

WAS = Spec(
    preset="run",
    env=EnvSpec(id="CartPole-v1", n_envs=8),
    ppo=PpoSpec(n_steps=32, batch_size=64, n_epochs=10),
    run=RunSpec(total_timesteps=1_000_000, seed=1),
)
SCHEDULED = change(WAS, ["ppo.learning_rate={start=1e-3,end=0}", "ppo.clip_range={start=0.2,end=0}"])
HALFWAY = ResumeFacts(timesteps=500_000)
FINISHED = ResumeFacts(timesteps=1_000_192, finished=True)


def verdict(*words: str, was: Spec = WAS, facts: ResumeFacts = HALFWAY) -> ResumeVerdict:
    """The verdict on resuming `was` with `words`."""
    return judge_resume(was, change(was, words), facts)


def only(*words: str, was: Spec = WAS, facts: ResumeFacts = HALFWAY) -> Change:
    """The single change of a resume, whose grade is the verdict's."""
    judged = verdict(*words, was=was, facts=facts)
    (single,) = judged.changes
    assert judged.grade == single.grade
    return single


def named(judged: ResumeVerdict, name: str) -> Change:
    """The change of field `name`."""
    (found,) = [change for change in judged.changes if change.name == name]
    return found
