"""`run.callbacks`: SB3's contract under both engines, what is logged, who ended or broke a training, and resumes."""

from __future__ import annotations

import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stable_baselines3
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.logger import Logger

import tests.trainer.own_envs  # noqa: F401 - registers what SB3 trains on
from mission_tui.errors import PresetError
from mission_tui.fleet.events.metrics import number
from mission_tui.fleet.specs.spec import Spec
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.callbacks import Callbacks, NamedCallback, build_callbacks, check_callbacks
from mission_tui.trainer.state.checkpoint import load_checkpoint
from tests.trainer.harness import Ran, alike, equal, new_run, run_attempt, spec_with, stop_in
from tests.trainer.own_parts import Counting, Diary, Ending
from tests.trainer.sb3_run import sb3_learned, sb3_vec

OWN = "tests.trainer.own_parts"
ENGINES = ("fast", "stock")
TALKING = {"id": "Talking-v0", "imports": ["tests.trainer.own_envs"], "n_envs": 4}


def called(*callbacks: str | dict[str, Any], **tables: dict[str, Any]) -> Spec:
    """The tiny spec with `callbacks`; bare names are classes of `own_parts`."""
    parts = [{"cls": it} if isinstance(it, str) else it for it in callbacks]
    return spec_with(**tables | {"run": tables.get("run", {}) | {"callbacks": parts}})


def own(name: str, **kwargs: Any) -> dict[str, Any]:
    """A class of `own_parts` and its arguments."""
    return {"cls": f"{OWN}:{name}", "kwargs": kwargs}


def ran(tmp_path: Path, spec: Spec) -> Ran:
    """A whole run of `spec`."""
    return run_attempt(new_run(tmp_path / "run", spec))


@pytest.mark.parametrize("vec", [{"vec": "inline"}, {"vec": "workers", "n_workers": 2}], ids=["inline", "workers"])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_callback_hears_what_it_hears_from_sb3(engine: str, vec: dict[str, Any], tmp_path: Path) -> None:
    """The same calls in the same order with the same counts, and the same values under the same names."""
    spec = called(own("Diary"), env=TALKING | vec, ppo={"n_steps": 16}, run={"engine": engine, "total_timesteps": 192})
    Diary.pages.clear()
    assert ran(tmp_path, spec).exit_code == 0
    ours = list(Diary.pages)
    Diary.pages.clear()
    sb3_learned(spec, [Diary()])
    assert [page["hook"] for page in ours] == [page["hook"] for page in Diary.pages]
    for mine, theirs in zip(ours, Diary.pages, strict=True):
        assert mine.keys() == theirs.keys()
        for name, value in theirs.items():
            if name in ("infos", "hook"):
                assert mine[name] == value
            else:
                np.testing.assert_allclose(mine[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
    assert len(ours) == 3 * (16 + 2) + 2


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
def test_values_and_actions_have_sb3s_shapes(env_id: str, tmp_path: Path) -> None:
    """Continuous actions are told unclipped beside the clipped ones; discrete ones become a column at the end."""
    spec = called(own("Diary"), env={"id": env_id}, run={"total_timesteps": 64})
    Diary.pages.clear()
    ran(tmp_path, spec)
    ours = list(Diary.pages)
    Diary.pages.clear()
    sb3_learned(spec, [Diary()])
    for mine, theirs in zip(ours, Diary.pages, strict=True):
        for name in ("actions", "clipped_actions", "values", "log_probs"):
            if name in theirs:
                assert np.shape(mine[name]) == np.shape(theirs[name]), (mine["hook"], name)


def test_callbacks_change_no_number(tmp_path: Path) -> None:
    """With one that only listens the parameters are those of the run without, bit for bit."""
    with_one = run_attempt(new_run(tmp_path / "with", called(own("Diary"))))
    without = run_attempt(new_run(tmp_path / "without", spec_with()))
    assert equal(with_one.parameters(), without.parameters())


def test_a_batched_environment_tells_every_lane_its_infos(tmp_path: Path) -> None:
    """MissionGym steps all lanes at once, and a callback still finds an info of each."""
    Diary.pages.clear()
    env = {"id": "MissionGym-v0", "config": "demo", "vec": "native", "n_envs": 4}
    ran(tmp_path, called(own("Diary"), env=env, run={"total_timesteps": 128}))
    steps = [page["infos"] for page in Diary.pages if page["hook"] == "step"]
    assert all(len(infos) == 4 and all("TimeLimit.truncated" in info for info in infos) for infos in steps)


@pytest.mark.parametrize("engine", ENGINES)
def test_false_ends_the_training_where_sb3_ends_it(engine: str, tmp_path: Path) -> None:
    """Finished, with a cause that names the callback; the parameters are those that SB3 is left with."""
    spec = called(own("Diary"), own("Ending", calls=40), run={"engine": engine})
    ended = ran(tmp_path, spec)
    row = ended.ended()
    assert (ended.exit_code, row.how, row.checkpoint) == (0, "finished", "000000064")
    assert row.cause == "run.callbacks[1] Ending ended it at 80 timesteps"
    stock = sb3_learned(spec, [Ending(40)])
    assert stock.num_timesteps == 80
    assert alike(ended.parameters(), dict(stock.policy.state_dict()), engine)


def test_heartbeats_can_tell_a_callback_that_goes_on_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that evaluates within a hook is known while it does, and not afterwards."""
    seen: list[bool] = []

    class Evaluates(BaseCallback):
        def _on_rollout_start(self) -> None:
            seen.append(all_of_them.are_long())
            monkeypatch.setattr(time, "monotonic", lambda: 1e9)
            seen.append(all_of_them.are_long())

        def _on_step(self) -> bool:
            return True

    all_of_them = Callbacks([NamedCallback("run.callbacks[0]", "Evaluates", (), Evaluates())])
    all_of_them.on_rollout_start()
    assert [*seen, all_of_them.are_long()] == [False, True, False]


def test_an_answer_that_was_forgotten_is_called_that(tmp_path: Path) -> None:
    """None ends a training in SB3 too; the cause says what to write."""
    ended = ran(tmp_path, called(own("Forgetful"))).ended()
    assert ended.how == "finished"
    assert ended.cause == "run.callbacks[0] Forgetful ended it at 2 timesteps by returning None; True goes on"


def test_a_stop_of_a_person_wins_over_a_callback(tmp_path: Path) -> None:
    """Asked to stop and ended at the same step: the run was stopped, and can go on."""
    run_dir = new_run(tmp_path / "run", called(own("Ending", calls=33)))
    assert run_attempt(run_dir, hook=stop_in("rollout", 1)).ended().how == "stopped"


@pytest.mark.parametrize("engine", ENGINES)
def test_evaluating_until_a_threshold_does_what_it_does_in_sb3(engine: str, tmp_path: Path) -> None:
    """EvalCallback plays in an environment like the run's, logs into the row, and ends the training when told to."""
    stopping = {"cls": "StopTrainingOnRewardThreshold", "kwargs": {"reward_threshold": 1.0}}
    evaluating = {"n_eval_episodes": 3, "eval_freq": 40, "verbose": 0, "callback_after_eval": stopping}
    ended = ran(tmp_path, called({"cls": "EvalCallback", "kwargs": evaluating}, run={"engine": engine}))
    name = "run.callbacks[0] EvalCallback (with StopTrainingOnRewardThreshold)"
    assert ended.ended().cause == f"{name} ended it at 80 timesteps"
    assert ended.ended().how == "finished"
    evaluating["callback_after_eval"] = None
    whole = ran(
        tmp_path / "whole", called({"cls": "EvalCallback", "kwargs": _toml(evaluating)}, run={"engine": engine})
    )
    logged = [row.metrics.get("eval/mean_reward") for row in whole.updates()]
    assert [mean is not None for mean in logged] == [False, True, True, True, True, False]
    vec = sb3_vec("CartPole-v1", 1)
    vec.seed(3 + 10_000)
    judge = EvalCallback(vec, n_eval_episodes=3, eval_freq=40, verbose=0)
    sb3_learned(called(run={}), [judge])
    assert number(logged[4]) == judge.last_mean_reward
    assert max(number(mean) or 0.0 for mean in logged if mean is not None) == judge.best_mean_reward


def test_evaluation_sees_what_the_policy_is_fed(tmp_path: Path) -> None:
    """Normalised and stacked, with the statistics of the training and raw rewards; and its own number of lanes."""
    kwargs = {"eval_env": {"n_envs": 2}, "n_eval_episodes": 4, "eval_freq": 32, "verbose": 0}
    env = {"normalize": True, "frame_stack": 2}
    rows = ran(tmp_path, called({"cls": "EvalCallback", "kwargs": kwargs}, env=env)).updates()
    assert all((number(row.metrics["eval/mean_reward"]) or 0.0) >= 8.0 for row in rows)


def test_evaluation_plays_a_batched_environment_as_one(tmp_path: Path) -> None:
    """MissionGym's lanes are one environment, which says of its episodes what SB3 asks a Monitor for."""
    kwargs = {"eval_env": {"n_envs": 8}, "n_eval_episodes": 8, "eval_freq": 32, "verbose": 0}
    env = {"id": "MissionGym-v0", "config": "demo", "vec": "native"}
    ended = ran(tmp_path, called({"cls": "EvalCallback", "kwargs": kwargs}, env=env, run={"total_timesteps": 128}))
    assert all("eval/mean_reward" in row.metrics for row in ended.updates())


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_logged_is_in_the_row_under_its_own_name(
    engine: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Last values and means of this rollout; the trainer's own figures stay its own; words are complained of once."""
    rows = ran(tmp_path, called(own("Logging"), run={"engine": engine})).updates()
    assert [row.metrics["mine/calls"] for row in rows] == [32.0 * n for n in range(1, 7)]
    assert [row.metrics["mine/mean"] for row in rows] == [15.5] * 6
    assert all(number(row.metrics["train/approx_kl"]) != 77.0 for row in rows)
    assert capfd.readouterr().err.count("metric mine/word is a str and no number") == 1


def test_what_no_row_has_is_in_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What was logged in the rollout that a callback broke off is said once, by name."""
    ran(tmp_path, called(own("Logging"), own("Ending", calls=40)))
    said = "logged by callbacks after the last update, so in no row: mine/calls = 40, mine/mean = 3.5"
    assert said in capfd.readouterr().err


def test_what_is_dumped_in_between_is_kept_and_the_clock_is_not(tmp_path: Path) -> None:
    """SB3's LogEveryNTimesteps dumps in the middle of a rollout; a row has its own clock."""
    every = {"cls": "LogEveryNTimesteps", "kwargs": {"n_steps": 10}}
    rows = ran(tmp_path, called(own("Logging"), every)).updates()
    assert all("mine/calls" in row.metrics for row in rows)
    assert not any(name.startswith("time/") for row in rows for name in row.metrics)
    assert len({number(row.metrics["train/approx_kl"]) for row in rows}) == 6


@pytest.mark.parametrize(
    ("hook", "updates"),
    [
        ("init_callback", 0),
        ("on_training_start", 0),
        ("on_rollout_start", 0),
        ("on_step", 2),
        ("on_rollout_end", 0),
        ("on_training_end", 6),
    ],
)
def test_what_raises_is_named_with_its_line(
    hook: str, updates: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The attempt fails; its cause has the callback, the exception and the user's own line, stderr the traceback."""
    source = (Path(__file__).with_name("own_parts.py")).read_text(encoding="utf-8").splitlines()
    line = next(n for n, text in enumerate(source, 1) if "the line that is to be named" in text)
    failed = ran(tmp_path, called(own("Raising", hook=hook)))
    row = failed.ended()
    assert (failed.exit_code, row.how, row.failure, row.update) == (1, "failed", "callback", updates)
    assert row.cause == f"run.callbacks[0] Raising raised LinAlgError: Singular matrix (own_parts.py:{line}) in {hook}"
    assert "Traceback" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        ("EvalCalback", "did you mean 'EvalCallback'?"),
        (f"{OWN}:Diry", "run.callbacks[0]: module 'tests.trainer.own_parts' has no 'Diry'; did you mean 'Diary'?"),
        ("nowhere:Diary", "run.callbacks[0]: module 'nowhere' cannot be imported"),
        (f"{OWN}:Extractor", "run.callbacks[0]: Extractor is no callback"),
        ("pathlib:PurePath", "PurePath is no callback"),
        (own("Ending"), "run.callbacks[0].kwargs.calls is missing"),
        (own("Ending", cals=3), "unknown key run.callbacks[0].kwargs.cals; did you mean 'calls'?"),
        (
            {"cls": "EvalCallback", "kwargs": {"callback_after_eval": {"cls": "StopTrainingOnRewardTreshold"}}},
            "run.callbacks[0].kwargs.callback_after_eval = 'StopTrainingOnRewardTreshold'",
        ),
        (
            {"cls": "EvalCallback", "kwargs": {"eval_env": {"n_env": 2}}},
            "unknown key run.callbacks[0].kwargs.eval_env.n_env; did you mean 'n_envs'?",
        ),
        ({"cls": "EvalCallback", "kwargs": {"eval_env": "other"}}, "must be 'same'"),
        ({"cls": "EvalCallback", "kwargs": {"eval_env": {"n_envs": 0}}}, "does not fit [env]"),
    ],
)
def test_what_cannot_be_made_is_said_before_anything_starts(part: Any, sentence: str, tmp_path: Path) -> None:
    """The same sentence from the look beforehand and from the making, with the key and the nearest valid name."""
    spec = called(part)
    with pytest.raises(PresetError) as refused:
        check_callbacks(spec)
    assert sentence in str(refused.value)
    with pytest.raises(PresetError) as refused:
        build_callbacks(spec, tmp_path, None, 0)
    assert sentence in str(refused.value)


def test_the_look_beforehand_makes_nothing() -> None:
    """Good ones pass, and no callback and no environment is there afterwards."""
    stopping = {"cls": "StopTrainingOnRewardThreshold", "kwargs": {"reward_threshold": 1.0}}
    check_callbacks(called(own("Diary"), {"cls": "EvalCallback", "kwargs": {"callback_on_new_best": stopping}}))


def test_counts_go_on_after_a_resume(tmp_path: Path) -> None:
    """Plain attributes are those of the checkpoint, what is none is fresh; such a resume is never called exact."""
    Counting.seen.clear()
    run_dir = new_run(tmp_path / "run", called(own("Counting")))
    first = run_attempt(run_dir, hook=stop_in("update", 2))
    second = run_attempt(run_dir, 2, first.ended().checkpoint)
    begun, resumed = Counting.seen
    assert begun["steps"] == 0
    assert resumed == {
        "n_calls": 64,
        "every": 10,
        "steps": 64,
        "history": [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0],
        "by_name": {"odd": 32},
        "total": [64.0, 64.0],
        "unkept": {1, 2},
    }
    assert not second.started().exact
    assert second.ended().how == "finished"


def test_a_resume_may_change_what_a_callback_is_made_with(tmp_path: Path) -> None:
    """Another `every` is in effect, and the counts go on."""
    Counting.seen.clear()
    run_dir = new_run(tmp_path / "run", called(own("Counting", every=10)))
    first = run_attempt(run_dir, hook=stop_in("update", 1))
    run_dir.spec.write_text(run_dir.spec.read_text().replace("every = 10", "every = 7"))
    run_attempt(run_dir, 2, first.ended().checkpoint)
    assert [(seen["every"], seen["steps"]) for seen in Counting.seen] == [(10, 0), (7, 32)]


def test_another_callback_in_its_place_gets_nothing_of_it(tmp_path: Path) -> None:
    """Counts are of a class in a place."""
    Counting.seen.clear()
    run_dir = new_run(tmp_path / "run", called(own("Diary")))
    first = run_attempt(run_dir, hook=stop_in("update", 1))
    run_dir.spec.write_text(run_dir.spec.read_text().replace(":Diary", ":Counting"))
    second = run_attempt(run_dir, 2, first.ended().checkpoint)
    assert second.exit_code == 0
    assert Counting.seen[0]["n_calls"] == 0


def test_sb3s_own_go_on_where_they_were(tmp_path: Path) -> None:
    """The best mean is known after a resume, and an event that counts timesteps is not fired anew."""
    kwargs = {"n_eval_episodes": 2, "eval_freq": 32, "verbose": 0, "best_model_save_path": "{run_dir}/best"}
    every = {"cls": "EveryNTimesteps", "kwargs": {"n_steps": 10_000, "callback": own("Counting")}}
    spec = called({"cls": "EvalCallback", "kwargs": kwargs}, every)
    run_dir = new_run(tmp_path / "run", spec)
    first = run_attempt(run_dir, hook=stop_in("update", 3))
    best = run_dir.path / "best" / "best_model.zip"
    saved = stable_baselines3.PPO.load(best, device="cpu").num_timesteps
    assert saved <= 192
    made = build_callbacks(spec, run_dir.path, None, 0)
    assert made is not None
    state = _state_of(run_dir, first.ended().checkpoint)
    kept = next(value for place, value in state.items() if place.endswith(":EvalCallback"))
    assert kept["best_mean_reward"] > 0
    assert kept["n_calls"] == 96
    made.close()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_zip_that_a_callback_saves_is_plain_sb3s(engine: str, tmp_path: Path) -> None:
    """CheckpointCallback's file names nothing of this project, and SB3 predicts the same with it and trains on."""
    kwargs = {"save_freq": 32, "save_path": "{run_dir}/zips"}
    run = ran(tmp_path, called({"cls": "CheckpointCallback", "kwargs": kwargs}, run={"engine": engine}))
    last = run.run_dir.path / "zips" / "rl_model_384_steps.zip"
    with zipfile.ZipFile(last) as archive:
        assert b"mission_tui" not in archive.read("data")
    loaded = stable_baselines3.PPO.load(last, env=sb3_vec("CartPole-v1", 2), device="cpu")
    assert loaded.num_timesteps == 384
    loaded.set_logger(Logger(None, []))
    loaded.learn(64)


def _toml(table: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if value is not None}


def _state_of(run_dir: RunDir, checkpoint: str | None) -> dict[str, Any]:
    assert checkpoint is not None
    state: dict[str, Any] = load_checkpoint(run_dir.checkpoints / checkpoint).boundary.state["callbacks"]
    return state
