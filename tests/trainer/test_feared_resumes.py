"""The five resumes that people fear, each with a training: the verdict is right, and its remedy works.

Two attempts begin at the same checkpoint: one as if nothing had happened, one with the change and its remedy. The
changed one has to keep what was learned. How well it then learns is no question for one training: processors round
differently, and from one of these checkpoints with one seed mean returns of 74 and of 180 were seen.
"""

from __future__ import annotations

import shutil
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

from mission_tui.fleet.events.metrics import UpdateDone
from mission_tui.fleet.resume.judge import apply_choices, judge_resume
from mission_tui.fleet.resume.remedies import ResumeTarget
from mission_tui.fleet.resume.sides import ResumeFacts
from mission_tui.fleet.resume.verdict import Change, Remedy, ResumeVerdict, Terms
from mission_tui.fleet.specs.preset import draft_change
from mission_tui.fleet.specs.spec import Spec
from mission_tui.records.runs.attempt import write_spec, write_terms
from mission_tui.records.runs.layout import RunDir
from tests.trainer.harness import Ran, equal, new_run, run_attempt, spec_with

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

LEARNING = {"net_arch": [32], "learning_rate": 1e-3, "n_epochs": 4}
SIZES: dict[str, tuple[dict[str, Any], int, int]] = {
    "8 envs": ({"env": {"n_envs": 8}, "ppo": LEARNING | {"n_steps": 64, "batch_size": 64}}, 20_480, 2),
    "64 envs": ({"env": {"n_envs": 64}, "ppo": LEARNING | {"n_steps": 16, "batch_size": 64}}, 24_576, 4),
    "large batch": (
        {
            "env": {"n_envs": 8, "normalize": True},
            "ppo": LEARNING | {"n_steps": 256, "batch_size": 2048, "n_epochs": 10, "learning_rate": 3e-3},
        },
        32_768,
        2,
    ),
}
"""Settings, timesteps, and a seed with which twice as many episodes end as are compared, or nearly."""
FURTHER = 12_288
COMPARED = 3
"""Updates of which a remedy has to press the policy less."""
CHANCE = 22.0
"""The mean return of a random policy."""


@dataclass(frozen=True)
class Trained:
    """A training that reached its budget, the spec to go further with, and how far others have gone on from it."""

    run_dir: RunDir
    spec: Spec
    checkpoint: str
    timesteps: int
    clipped: float
    attempts: dict[str, Attempt] = field(default_factory=dict)


class Padded(gymnasium.ObservationWrapper[NDArray[np.float32], Any, NDArray[np.float32]]):
    """CartPole with a fifth number that says nothing: another observation space."""

    def __init__(self, env: gymnasium.Env[NDArray[np.float32], Any]) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (5,), np.float32)

    def observation(self, observation: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.append(observation, np.float32(0.0))


class Trainings(dict[str, Trained]):
    """Each of the sizes, trained when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def __missing__(self, name: str) -> Trained:
        tables, total, seed = SIZES[name]
        spec = spec_with(**tables, run={"total_timesteps": total, "seed": seed})
        ran = run_attempt(new_run(self.folder / name.replace(" ", "-"), spec))
        checkpoint = ran.ended().checkpoint
        assert checkpoint is not None
        further = draft_change(spec, [f"run.total_timesteps={total + FURTHER}"])
        shares = [float(row.metrics["train/grad_clipped_share"]) for row in ran.updates()[-20:]]
        self[name] = Trained(ran.run_dir, further, checkpoint, total, statistics.fmean(shares))
        return self[name]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trainings:
    """What the tests of one process share."""
    return Trainings(tmp_path_factory.mktemp("trained"))


def verdict(of: Trained, now: Spec, **facts: Any) -> ResumeVerdict:
    """What is said of going on with `now`."""
    return judge_resume(of.spec, now, ResumeFacts(of.timesteps, grad_clipped_share=of.clipped, **facts))


def named(judged: ResumeVerdict, name: str) -> tuple[Change, dict[str, Remedy]]:
    """A change and its remedies by name."""
    (change,) = (it for it in judged.changes if it.name == name)
    return change, {remedy.name: remedy for remedy in change.remedies}


def gone_on(of: Trained, path: Path, now: Spec, terms: Terms = Terms()) -> list[UpdateDone]:  # noqa: B008 - frozen
    """The updates of that attempt."""
    return attempt(of, path, now, terms).updates_of(2)


@dataclass(frozen=True)
class Attempt:
    """The attempt, and how to read it."""

    ran: Ran

    def updates_of(self, number: int) -> list[UpdateDone]:
        return [row for row in self.ran.updates() if row.attempt == number]


def attempt(of: Trained, path: Path, now: Spec, terms: Terms = Terms()) -> Attempt:  # noqa: B008 - frozen
    """Attempt 2, which goes on from the checkpoint: one and the same whoever asks, and trained once."""
    how = repr((now, terms))
    if how not in of.attempts:
        of.attempts[how] = _attempt(of, path, now, terms)
    return of.attempts[how]


def _attempt(of: Trained, path: Path, now: Spec, terms: Terms) -> Attempt:
    """The same in a copy of the run."""
    shutil.copytree(of.run_dir.path, path)
    folder = RunDir(path).attempt(2)
    folder.path.mkdir(parents=True)
    write_spec(folder.spec, now)
    write_terms(folder.terms, terms)
    ran = run_attempt(RunDir(path), 2, of.checkpoint)
    assert ran.exit_code == 0, ran.ended().cause
    return Attempt(ran)


def remedied(of: Trained, now: Spec, *names: str) -> ResumeTarget:
    """What comes of the remedies."""
    return apply_choices(of.spec, now, ResumeFacts(of.timesteps, grad_clipped_share=of.clipped), names, ())


def keeps_it(changed: list[UpdateDone], other: list[UpdateDone]) -> bool:
    """Whether the second half's episodes return more than 0.3 of the other's; a policy that is lost has 0.1 to 0.15."""
    late = [[float(r) for row in rows[len(rows) // 2 :] for r in row.episodes.r] for rows in (changed, other)]
    assert min(map(len, late)) >= 10
    assert statistics.fmean(late[1]) > 4 * CHANCE
    return statistics.fmean(late[0]) > 0.3 * statistics.fmean(late[1])


def pressed(rows: list[UpdateDone]) -> float:
    """The KL of the first updates that are compared, all their minibatches."""
    return statistics.fmean(float(row.metrics["train/approx_kl_all"]) for row in rows[:COMPARED])


def test_eight_environments_become_sixty_four(trained: Trainings, tmp_path: Path) -> None:
    """Warned of eight times the gradient steps; held, they move the policy less and it learns on."""
    of = trained["8 envs"]
    now = draft_change(of.spec, ["env.n_envs=64"])
    change, remedies = named(verdict(of, now), "env.n_envs")
    assert change.grade == "warn"
    assert "8 x gradient steps per update (32 -> 256)" in change.why
    assert "hold-steps" in remedies
    target = remedied(of, now, "hold-steps")
    held = gone_on(of, tmp_path / "held", target.spec, target.terms)
    assert pressed(held) < pressed(gone_on(of, tmp_path / "unheld", now))
    assert keeps_it(held, gone_on(of, tmp_path / "as it was", of.spec))


def test_sixty_four_environments_become_eight(trained: Trainings, tmp_path: Path) -> None:
    """A low risk, with fewer gradient steps from fewer transitions; more epochs make up for them."""
    of = trained["64 envs"]
    now = draft_change(of.spec, ["env.n_envs=8"])
    change, remedies = named(verdict(of, now), "env.n_envs")
    assert change.grade == "warn"
    assert change.why.startswith("low risk: fewer gradient steps per update (64 -> 8)")
    assert remedies["hold-steps"].assignments == ("ppo.n_epochs=8",)
    target = remedied(of, now, "hold-steps")
    assert keeps_it(
        gone_on(of, tmp_path / "held", target.spec, target.terms), gone_on(of, tmp_path / "as it was", of.spec)
    )


@pytest.mark.parametrize("names", [("scale-lr", "target-kl"), ("reset-adam", "target-kl")])
def test_a_minibatch_of_2048_becomes_64(names: tuple[str, ...], trained: Trainings, tmp_path: Path) -> None:
    """Warned of Adam's second moment and of 32 times the steps; each remedy moves the policy less, and it learns on."""
    of = trained["large batch"]
    now = draft_change(of.spec, ["ppo.batch_size=64"])
    change, remedies = named(verdict(of, now), "ppo.batch_size")
    assert change.grade == "warn"
    assert "steps are up to 5.66 x too large" in change.why
    assert "32 x gradient steps per update (10 -> 320)" in change.why
    assert set(names) <= set(remedies)
    target = remedied(of, now, *names)
    assert named(judge_resume(of.spec, target.spec, ResumeFacts(of.timesteps), target.terms), "ppo.batch_size")[
        0
    ].why.startswith(f"answered by {names[0]}")
    eased = gone_on(of, tmp_path / "eased", target.spec, target.terms)
    compared = of.timesteps + COMPARED * now.env.n_envs * now.ppo.n_steps
    uneased = gone_on(of, tmp_path / "uneased", draft_change(now, [f"run.total_timesteps={compared}"]))
    assert len(uneased) == COMPARED
    assert pressed(eased) < pressed(uneased)
    assert keeps_it(eased, gone_on(of, tmp_path / "as it was", of.spec))


def test_a_missing_normalizer_is_restored(trained: Trainings, tmp_path: Path) -> None:
    """Refused, because every input changes; restored, the training is the very one that never stopped."""
    of = trained["large batch"]
    now = draft_change(of.spec, ["env.normalize=false"])
    change, remedies = named(verdict(of, now), "env.normalize")
    assert (change.grade, change.override) == ("refuse", True)
    assert "the normalizer is missing" in change.why
    assert "restore" in remedies
    target = remedied(of, now, "restore")
    assert target == ResumeTarget(of.spec)
    restored = _attempt(of, tmp_path / "restored", target.spec, target.terms)
    as_it_was = attempt(of, tmp_path / "as it was", of.spec)
    assert equal(restored.ran.parameters(), as_it_was.ran.parameters())
    without = gone_on(of, tmp_path / "overridden", now, Terms(overridden=("env.normalize",), fresh_normalizer=True))
    first = float(without[0].episodes.r[0]), statistics.fmean(float(r) for r in as_it_was.updates_of(1)[-1].episodes.r)
    assert first[0] < first[1], "the override does what the refusal said"


def test_another_observation_space_is_branched(trained: Trainings, tmp_path: Path) -> None:
    """Refused for good; as a branch, the weights that fit begin a run of their own, which learns."""
    of = trained["8 envs"]
    now = draft_change(of.spec, [f"env.wrappers=['{__name__}:Padded']", f"run.total_timesteps={FURTHER}"])
    judged = verdict(of, now, obs_space_was="Box(4,)", obs_space_now="Box(5,)")
    change, remedies = named(judged, "observation space")
    assert (judged.grade, change.override, set(remedies)) == ("refuse", False, {"branch"})
    run_dir = new_run(tmp_path / "branch", now)
    shutil.copytree(of.run_dir.checkpoints / of.checkpoint, run_dir.origin / of.checkpoint)
    run_dir.attempt(1).path.mkdir(parents=True)
    write_terms(run_dir.attempt(1).terms, Terms(weights_from=of.checkpoint))
    branch = run_attempt(run_dir)
    assert branch.ended().how == "finished", branch.ended().cause
    returns = [float(row.metrics["rollout/ep_rew_mean"]) for row in branch.updates() if row.episodes.n]
    assert returns[-1] > 2 * returns[0]
