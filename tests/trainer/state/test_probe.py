"""The probe after a resume: it says what was recorded and what the policy scores, and leaves the training alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mission_tui.fleet.health.replay import replay
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.spec import Spec
from mission_tui.records.runs.attempt import write_spec
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.state import resume as probing
from mission_tui.trainer.state.boundary import Progress
from mission_tui.trainer.state.checkpoint import load_checkpoint
from tests.trainer.harness import PROBES, Ran, equal, new_run, run_attempt, spec_with, stop_in

pytestmark = pytest.mark.slow


def resumed(path: Path, spec: Spec, now: Spec) -> Ran:
    """Attempt 2 of `spec` with the spec `now`."""
    run_dir = new_run(path, spec)
    first = run_attempt(run_dir, hook=stop_in("rollout", 3))
    folder = run_dir.attempt(2)
    folder.path.mkdir(parents=True)
    write_spec(folder.spec, now)
    return run_attempt(run_dir, 2, first.ended().checkpoint)


@pytest.mark.parametrize("normalize", [False, True])
def test_a_changed_resume_is_played_beside_the_training(normalize: bool, tmp_path: Path) -> None:
    """Sixteen episodes are compared with the window of the checkpoint, and its entropy is recorded."""
    spec = spec_with(env={"normalize": normalize})
    ran = resumed(tmp_path / "run", spec, spec_with(env={"normalize": normalize}, ppo={"learning_rate": 1e-4}))
    told = ran.started().resumed
    assert told is not None
    assert (told.exact, told.episodes) == (False, 16)
    window = [r for row in ran.updates() if row.attempt == 1 for r in row.episodes.r]
    assert told.episodes_before == len(window)
    assert told.mean_before == pytest.approx(sum(float(r) for r in window) / len(window))
    assert 5 < float(told.mean or 0.0) < 200
    last = [row for row in ran.updates() if row.attempt == 1][-1]
    assert told.entropy_before == last.metrics["train/entropy_loss"]
    steps = [row.metrics for row in ran.updates() if row.attempt == 1]
    assert [(it.kl, it.clip_fraction, it.clip_range) for it in told.steps_before] == [
        tuple(metrics[f"train/{tag}"] for tag in ("approx_kl", "clip_fraction", "clip_range")) for metrics in steps
    ]


def test_training_computes_the_same_with_the_probe_as_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every generator is put back, so a resume with a note alone still goes on from the same numbers."""
    spec, now = spec_with(), spec_with(ppo={"learning_rate": 1e-4})
    with_probe = resumed(tmp_path / "with", spec, now)
    monkeypatch.setattr(probing, "PROBE_LIMIT_S", 0.0)
    without = resumed(tmp_path / "without", spec, now)
    told = without.started().resumed
    assert told is not None
    assert told.mean is None
    assert "16 episodes took over 0 s" in capsys.readouterr().err
    assert equal(with_probe.parameters(), without.parameters())


def test_an_exact_resume_plays_nothing(tmp_path: Path) -> None:
    """There is nothing to compare; what was recorded is said all the same."""
    told = resumed(tmp_path / "run", spec_with(), spec_with()).started().resumed
    assert told is not None
    assert (told.exact, told.mean, told.episodes) == (True, None, 0)
    assert told.mean_before is not None


def test_the_steps_of_all_attempts_are_recorded_the_last_twenty(tmp_path: Path) -> None:
    """A resume that is resumed knows what the first attempt did; a checkpoint of an earlier version knows nothing."""
    spec = spec_with(run={"total_timesteps": 40 * 64})
    run_dir = new_run(tmp_path / "run", spec)
    ran = run_attempt(run_dir, hook=stop_in("rollout", 15))
    for attempt, update in ((2, 24), (3, 26)):
        ran = run_attempt(run_dir, attempt, ran.ended().checkpoint, hook=stop_in("rollout", update))
    told = ran.started().resumed
    assert told is not None
    assert [it.kl for it in told.steps_before] == [row.metrics["train/approx_kl"] for row in ran.updates()[4:24]]
    boundary = load_checkpoint(run_dir.checkpoints / str(ran.ended().checkpoint)).boundary
    del boundary.state["steps"]
    assert not Progress.at(boundary).steps


def test_a_fresh_run_has_no_probe_and_other_environments_do(tmp_path: Path) -> None:
    """Only a resume is compared; an environment that cannot be saved is played too."""
    walk = spec_with(env={"id": "Walk-v0", **PROBES})
    ran = resumed(tmp_path / "run", walk, walk)
    starts = [row.resumed for row in ran.records() if row.__struct_config__.tag == "start"]  # type: ignore[union-attr]
    assert starts[0] is None
    assert starts[1] is not None
    assert not starts[1].exact


def test_a_probe_that_cannot_play_says_what_ails_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What an environment of the probe raises stands in the log; the training goes on without its returns."""

    def refuse(*_: object) -> None:
        raise ZeroDivisionError("no more environments")

    monkeypatch.setattr(probing, "build_vec_env", refuse)
    ran = resumed(tmp_path / "run", spec_with(), spec_with(ppo={"learning_rate": 1e-4}))
    told = ran.started().resumed
    assert told is not None
    assert told.mean is None
    assert "ZeroDivisionError: no more environments (test_probe.py:" in capsys.readouterr().err
    assert ran.updates()[-1].update == 6


@pytest.fixture(scope="module")
def pressed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Spec, Ran]:
    """A run that goes through each rollout twenty times: over a third is clipped from its first updates on."""
    spec = spec_with(
        env={"id": "MissionGym-v0", "n_envs": 16, "vec": "native"},
        ppo={"n_steps": 32, "batch_size": 256, "n_epochs": 20, "learning_rate": 1.5e-3, "net_arch": [64]},
        run={"total_timesteps": 10**6},
    )
    return spec, run_attempt(new_run(tmp_path_factory.mktemp("pressed") / "run", spec), hook=stop_in("rollout", 24))


@pytest.mark.parametrize(
    ("word", "farther"),
    [
        ("ppo.stats_window_size=50", False),
        ("ppo.learning_rate=3e-3", True),
        ("ppo.batch_size=64", True),
        ("ppo.n_epochs=40", True),
    ],
)
def test_a_run_that_always_went_far_is_told_when_it_goes_farther(
    word: str, farther: bool, pressed: tuple[Spec, Ran], tmp_path: Path
) -> None:
    """What bears on nothing that is learned goes on as before; twice the pressure is found at once."""
    spec, first = pressed
    shutil.copytree(first.run_dir.path, tmp_path / "run")
    run_dir, now = RunDir(tmp_path / "run"), change(spec, [word])
    folder = run_dir.attempt(2)
    folder.path.mkdir(parents=True)
    write_spec(folder.spec, now)
    ran = run_attempt(run_dir, 2, first.ended().checkpoint, hook=stop_in("rollout", 32))
    shares = [row.metrics["train/clip_fraction"] for row in ran.updates()]
    assert sorted(map(float, shares[19:24]))[2] > 0.35  # before the stop, by the usual limit: too far
    (told,) = (it for it in replay({1: spec, 2: now}, ran.records(), ()) if it.rule == "resume-probe")
    assert ("moved the policy too far" in told.sentence) is farther, told.sentence
