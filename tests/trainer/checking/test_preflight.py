"""Preflight: quick for what is known, exact about what is wrong, one JSON line always."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium
import msgspec
import pytest
from gymnasium import spaces

import mission_tui.envs  # noqa: F401 - registers MissionGym
from mission_tui.errors import install_words
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, Spec
from mission_tui.supervisor.launchers.order import needs_no_preflight
from mission_tui.trainer.checking.preflight import _KNOWN, known_spaces, main
from mission_tui.trainer.spaces import refusal, short
from tests.missing import search_path_without
from tests.trainer.forked import forked

ROOT = Path(__file__).parents[3]


def preflight(spec: dict[str, Any], search_path: str = str(ROOT)) -> tuple[int, dict[str, Any], str]:
    """Exit code, answer and stderr of a preflight process; it also reports which heavy modules it loaded."""
    code = (
        "import sys; from mission_tui.trainer.checking.preflight import main; code = main(); "
        "print([name for name in ('torch', 'gymnasium', 'numpy') if name in sys.modules], file=sys.stderr); "
        "sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(spec),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": search_path},
        timeout=55,
    )
    *_, line = done.stdout.splitlines()
    return done.returncode, json.loads(line), done.stderr


def test_a_known_environment_is_answered_without_loading_anything() -> None:
    """CartPole needs neither gymnasium nor torch."""
    code, answer, loaded = preflight({"preset": "p", "env": {"id": "CartPole-v1"}})
    assert (code, answer) == (0, {"ok": True, "obs": "Box(4,)", "act": "Discrete(2)"})
    assert loaded == "[]\n"


def test_looking_needs_no_torch() -> None:
    """An environment that has to be made is made without torch, and what it prints does not mix with the answer."""
    spec = {"preset": "p", "env": {"id": "Walk-v0", "imports": ["tests.trainer.probe_envs"]}}
    code, answer, loaded = preflight(spec)
    assert (code, answer["obs"]) == (0, "Box(3,)")
    assert "torch" not in loaded


@pytest.mark.parametrize("env_id", [*_KNOWN, "MissionGym-v0"])
def test_the_table_tells_the_truth(env_id: str) -> None:
    """Every line of it equals the spaces of the real environment."""
    env = gymnasium.make(env_id)
    assert known_spaces(EnvSpec(id=env_id)) == (short(env.observation_space), short(env.action_space))


def test_the_table_knows_the_shipped_missions() -> None:
    """Standard and demo have their own spaces."""
    for config in ("standard", "demo"):
        env = gymnasium.make("MissionGym-v0", config=config)
        known = known_spaces(EnvSpec(id="MissionGym-v0", config=config))
        assert known == (short(env.observation_space), short(env.action_space))


@pytest.mark.parametrize(
    "env",
    [{"kwargs": {"a": 1}}, {"wrappers": ("a:B",)}, {"imports": ("os",)}, {"config": "demo"}, {"vec": "native"}],
)
def test_anything_unusual_is_looked_at(env: dict[str, Any]) -> None:
    """The table answers only for the plain environment."""
    assert known_spaces(EnvSpec(id="CartPole-v1", **env)) is None


def test_a_module_beside_the_user_is_found(tmp_path: Path) -> None:
    """`module:id` is imported from the folder the preset is launched in."""
    (tmp_path / "mine.py").write_text(
        "import gymnasium; gymnasium.register('Mine-v0', 'gymnasium.envs.classic_control:PendulumEnv'); print('hello')"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mission_tui.trainer.checking.preflight"],
        input=json.dumps({"preset": "p", "env": {"id": "mine:Mine-v0"}}),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=30,
    )
    assert json.loads(done.stdout.splitlines()[-1]) == {"ok": True, "obs": "Box(3,)", "act": "Box(1,)"}
    assert "hello" in done.stderr


@pytest.mark.parametrize(
    ("env", "ppo", "sentence"),
    [
        ({"id": "CartPol-v1"}, {}, "did you mean 'CartPole-v1'"),
        ({"id": "Blackjack-v1"}, {}, "observations are a Tuple"),
        ({"id": "CartPole-v1"}, {"use_sde": True}, "use_sde needs continuous actions"),
        ({"id": "CartPole-v1"}, {"policy": "CnnPolicy"}, "needs images"),
        ({"id": "CartPole-v1", "vec": "native"}, {}, "NextStep"),
        ({"id": "CartPole-v1", "kwargs": {"bogus": 1}}, {}, "env.kwargs does not fit"),
        ({"id": "CartPole-v1", "wrappers": ["os:path"]}, {}, "os:path' does not fit"),
        ({"id": "CartPole-v1", "imports": ["gymnasum"]}, {}, "); did you mean 'gymnasium'?"),
        ({"id": "CartPole-v1"}, {"policy": "nowhere:Net"}, "No module named 'nowhere' (nor in the folder /"),
        ({"id": "CartPole-v1"}, {"policy_kwargs": {"net_arc": [8]}}, "did you mean 'net_arch'?"),
        ({"id": "FrozenLake-v1", "frame_stack": 4}, {}, "env.frame_stack stacks arrays"),
        ({"id": ""}, {}, "the spec on stdin cannot be used"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    env: dict[str, Any],
    ppo: dict[str, Any],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Exit code 78 and a sentence that names the key and what would do."""
    import io

    data = json.dumps({"preset": "p", "env": env, "ppo": ppo}).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert main() == 78
    answer = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert answer["exit_code"] == 78
    assert sentence in answer["error"]


@pytest.mark.slow
def test_callbacks_are_found_before_anything_starts() -> None:
    """Also where the environment is built in; the sentence has the nearest of SB3's own names."""
    spec = {"preset": "p", "env": {"id": "CartPole-v1"}, "run": {"callbacks": ["EvalCalback"]}}
    assert not needs_no_preflight(msgspec.convert(spec, Spec))
    # It loads SB3: a fork of the test has that already.
    code, said, _ = forked(lambda _words: main(), (), json.dumps(spec).encode())
    answer = json.loads(said.splitlines()[-1])
    assert code == 78
    assert "run.callbacks[0] = 'EvalCalback' must be" in answer["error"]
    assert answer["error"].endswith("did you mean 'EvalCallback'?")


@pytest.mark.parametrize(
    ("env_id", "package"), [("LunarLander-v3", "Box2D"), ("Ant-v5", "mujoco"), ("ALE/Pong-v5", "ale_py")]
)
def test_a_missing_extra_is_named(env_id: str, package: str, tmp_path: Path) -> None:
    """Where the environment's package cannot be imported, the sentence is the line that installs it."""
    code, answer, _ = preflight({"preset": "p", "env": {"id": env_id}}, search_path_without((package,), tmp_path / "p"))
    assert (code, answer["exit_code"]) == (78, 78)
    assert f"needs the `envs` extra; {install_words('envs')}" in answer["error"]


@pytest.mark.parametrize(
    ("env_id", "said"),
    [
        ("HalfCheetah-v3", "'HalfCheetah-v4' is the same task today: --set env.id=HalfCheetah-v4"),
        ("LunarLander-v2", "'LunarLander-v3' is the same task today: --set env.id=LunarLander-v3"),
        ("Ant-v3", "'Ant-v4' is the nearest (--set env.id=Ant-v4): the 84 contact forces that Ant-v3 observed"),
    ],
)
def test_an_old_id_is_answered_with_the_one_that_works_today(env_id: str, said: str) -> None:
    """Ids of published agents that Gymnasium dropped, or keeps in its list and cannot make."""
    code, answer, _ = preflight({"preset": "p", "env": {"id": env_id}})
    assert code == 78
    assert f"env.id '{env_id}' is not made by the Gymnasium that is installed; {said}" in answer["error"]


@pytest.mark.parametrize(
    ("env_id", "said"),
    [
        ("tests.trainer.probe_envs:Wlak-v0", "; did you mean 'tests.trainer.probe_envs:Walk-v0'?"),
        ("tests.trainer.probe_envs:Walk", "; did you mean 'tests.trainer.probe_envs:Walk-v0'?"),
        ("tests.trainer.probe_envs:cartpole-v1", "; did you mean 'CartPole-v1'?"),
        ("MyGym/Thing-v0", "; one that a module of yours registers is 'module:MyGym/Thing-v0'"),
        ("Zzz-v0", "; one that a module of yours registers is 'module:Zzz-v0'"),
    ],
)
def test_what_is_offered_for_an_unknown_id_can_be_asked_for(env_id: str, said: str) -> None:
    """With the module where that registers it; where nothing is near, how one of a module is written."""
    code, answer, _ = preflight({"preset": "p", "env": {"id": env_id}})
    assert code == 78
    assert answer["error"] == f"env.id '{env_id}' is not a registered environment{said}"


@pytest.mark.parametrize(("name", "here"), [("Reach", ", and env.id = 'mine:Reach-v0' here"), ("Reach-v0", "")])
def test_a_class_that_its_module_does_not_register_is_answered_with_how(name: str, here: str, tmp_path: Path) -> None:
    """`module:Class` is how wrappers are named; what only sounds alike elsewhere (`Reacher-v5`) is no help."""
    (tmp_path / "mine.py").write_text("import gymnasium\nclass Reach(gymnasium.Env):\n    pass\n", encoding="utf-8")
    code, answer, _ = preflight({"preset": "p", "env": {"id": f"mine:{name}"}}, f"{tmp_path}{os.pathsep}{ROOT}")
    assert code == 78
    assert answer["error"] == (
        f"env.id 'mine:{name}' is not a registered environment: 'Reach' is a class of mine, which has to register it; "
        f"write there gymnasium.register('Reach-v0', entry_point='mine:Reach'){here}"
    )


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"id": "PongNoFrameskip-v4"}, f"needs the `envs` extra; {install_words('envs')}, and env.imports = "),
        ({"id": "AntBulletEnv-v0"}, "needs pybullet_envs_gymnasium; pip install pybullet_envs_gymnasium, and env.imp"),
        (
            {"id": "AntBulletEnv-v0", "imports": ["pybullet_envs_gymnasium"]},
            "env.imports: module 'pybullet_envs_gymnasium' is not installed; pip install pybullet_envs_gymnasium",
        ),
        (
            {"id": "Pendulum-v1", "wrappers": ["sb3_contrib.common.wrappers:TimeFeatureWrapper"]},
            f"module 'sb3_contrib.common.wrappers' needs the `contrib` extra; {install_words('contrib')}",
        ),
    ],
)
def test_the_package_of_a_published_task_is_named(env: dict[str, Any], said: str, tmp_path: Path) -> None:
    """The line that installs it and the one that imports it, for the tasks of published agents."""
    without = search_path_without(("ale_py", "pybullet_envs_gymnasium", "sb3_contrib"), tmp_path / "path")
    code, answer, _ = preflight({"preset": "p", "env": env}, without)
    assert code == 78
    assert said in answer["error"]


@pytest.mark.skipif(find_spec("ale_py") is None, reason="the `envs` extra is not installed")
@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"id": "ALE/Pong-v5"}, 'is registered by ale_py: write env.imports = ["ale_py"] in the preset'),
        ({"id": "ALE/Pnog-v5", "imports": ["ale_py"]}, "did you mean 'ALE/Pong-v5'?"),
    ],
)
def test_what_is_installed_is_not_called_missing(env: dict[str, Any], said: str) -> None:
    """With the extra, the import that the preset lacks is named, or the nearest of its ids."""
    code, answer, _ = preflight({"preset": "p", "env": env})
    assert code == 78
    assert said in answer["error"]


@pytest.mark.parametrize(
    ("observations", "actions", "ppo", "sentence"),
    [
        (spaces.Discrete(4), spaces.Tuple([spaces.Discrete(2)]), {}, "PPO takes Box, Discrete"),
        (spaces.Discrete(4), spaces.MultiBinary([2, 2]), {}, "several dimensions"),
        (spaces.Discrete(4), spaces.Box(-float("inf"), float("inf"), (2,)), {}, "finite bounds"),
        (spaces.Dict({"a": spaces.Discrete(2)}), spaces.Discrete(2), {}, "MultiInputPolicy"),
        (spaces.Dict({"a": spaces.Dict({"b": spaces.Discrete(2)})}), spaces.Discrete(2), {}, "nested"),
        (spaces.Dict({"a": spaces.Discrete(2)}), spaces.Discrete(2), {"policy": "MultiInputPolicy"}, None),
        (spaces.Discrete(4), spaces.Discrete(2), {"policy": "MultiInputPolicy"}, "needs a dictionary"),
        (spaces.Box(0.0, 1.0, (3,)), spaces.MultiDiscrete([2, 3]), {}, None),
    ],
)
def test_spaces_that_ppo_cannot_take_are_refused(
    observations: spaces.Space[Any], actions: spaces.Space[Any], ppo: dict[str, Any], sentence: str | None
) -> None:
    """The sentence says which space and what to use instead; good ones pass."""
    said = refusal(observations, actions, PpoSpec(**ppo))
    assert said is None if sentence is None else sentence in (said or "")


def test_a_missing_algorithm_is_named(tmp_path: Path) -> None:
    """Without sb3-contrib the sentence is the line that installs it, for a built-in environment too."""
    spec = {"preset": "p", "env": {"id": "CartPole-v1"}, "ppo": {"algo": "recurrent_ppo", "policy": "MlpLstmPolicy"}}
    code, answer, loaded = preflight(spec, search_path_without(("sb3_contrib",), tmp_path / "p"))
    assert (code, answer["exit_code"]) == (78, 78)
    assert answer["error"].endswith(f"needs the `contrib` extra; {install_words('contrib')}")
    assert loaded == "[]\n"


@pytest.mark.skipif(find_spec("sb3_contrib") is None, reason="the `contrib` extra is not installed")
def test_masks_are_looked_for_without_torch() -> None:
    """MissionGym offers them, CartPole does not, and continuous actions cannot have them."""
    ppo = {"algo": "maskable_ppo"}
    code, answer, loaded = preflight({"preset": "p", "env": {"id": "MissionGym-v0"}, "ppo": ppo})
    assert (code, answer["act"]) == (0, "MultiDiscrete([9 9 9 9])")
    assert "torch" not in loaded
    code, answer, _ = preflight({"preset": "p", "env": {"id": "CartPole-v1"}, "ppo": ppo})
    assert code == 78
    assert "asks it for action_masks() before every step, and it has no such method" in answer["error"]


@pytest.mark.parametrize(
    ("observations", "actions", "ppo", "sentence"),
    [
        (spaces.Discrete(4), spaces.Box(-1.0, 1.0, (2,)), {"algo": "maskable_ppo"}, "masks discrete actions"),
        (
            spaces.Dict({"a": spaces.Discrete(2)}),
            spaces.Discrete(2),
            {"policy": "MlpLstmPolicy"},
            "MultiInputLstmPolicy",
        ),
        (spaces.Box(0.0, 1.0, (3,)), spaces.Discrete(2), {"policy": "CnnLstmPolicy"}, "'CnnLstmPolicy' needs images"),
        (spaces.Box(0.0, 1.0, (3,)), spaces.Discrete(2), {"policy": "MultiInputLstmPolicy"}, "needs a dictionary"),
        (spaces.Box(0.0, 1.0, (3,)), spaces.Box(-1.0, 1.0, (2,)), {"policy": "MlpLstmPolicy"}, None),
    ],
)
def test_spaces_that_another_algorithm_cannot_take_are_refused(
    observations: spaces.Space[Any], actions: spaces.Space[Any], ppo: dict[str, Any], sentence: str | None
) -> None:
    """By its own policies' names."""
    said = refusal(observations, actions, PpoSpec(**ppo))
    assert said is None if sentence is None else sentence in (said or "")
