"""The smoke run as a process: every step is said, whatever kills it is named, and nothing of it is left."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import psutil
import pytest

from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Spec
from mission_tui.ipc.replies import SMOKE_STEPS
from mission_tui.records.tuning_files import all_kept
from mission_tui.trainer.checking import smoke, smoke_attempt
from mission_tui.trainer.checking.preflight import named_modules
from tests.nvml import library, machine, needs_gcc  # noqa: F401 - fixtures
from tests.trainer.forked import forked
from tests.trainer.harness import TINY
from tests.waiting import until

ROOT = Path(__file__).parents[3]

ENV = """
import gymnasium, numpy as np
class Odd(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (3,))
    action_space = gymnasium.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(3, np.float32), {}
    def step(self, action):
        STEP
gymnasium.register("Odd-v0", Odd, max_episode_steps=8)
"""


CARD = """
import os
os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.abspath("cache")  # the stand-in loads a compiler, which makes it
from tests.stand_in_cuda import stand_in_cuda
card = stand_in_cuda()
card.__enter__()
from mission_tui.trainer.building.device_speeds import _Side
_Side.update_seconds = lambda side: 0.01 if side.device == "cpu" else 0.03  # however busy this machine is
"""


def checked(
    folder: Path, limit_s: float = 60, root: Path | None = None, **tables: dict[str, Any]
) -> tuple[int, dict[str, dict[str, Any]], dict[str, Any] | None]:
    """Exit code, steps by name and figures of a check of `TINY` with `tables`, started in `folder`."""
    spec = {"preset": "tiny", **tables, **{name: TINY[name] | tables.get(name, {}) for name in TINY}}
    scratch = folder / "tmp"
    scratch.mkdir()
    environ = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(scratch), "PYTHONFAULTHANDLER": "1"}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mission_tui.trainer.checking.check",
            str(limit_s),
            *([] if root is None else [str(root)]),
        ],
        input=json.dumps(spec),
        capture_output=True,
        text=True,
        cwd=folder,
        env=environ | {"OMP_NUM_THREADS": "1"},
        timeout=100,
    )
    assert list(scratch.iterdir()) == [], done.stderr
    assert done.returncode == 0, done.stderr
    return as_said(done.stdout)


def tried(folder: Path, **tables: dict[str, Any]) -> tuple[int, dict[str, dict[str, Any]], dict[str, Any] | None]:
    """The same of the smoke run alone, which nobody watches, as a fork of the test: it has torch already."""

    def main(words: list[str]) -> int:
        os.chdir(folder)
        sys.path.append(str(folder))
        return smoke.main(words)

    (folder / "smoke").mkdir()
    spec = {"preset": "tiny", **tables, **{name: TINY[name] | tables.get(name, {}) for name in TINY}}
    code, said, complained = forked(main, [str(folder / "smoke")], json.dumps(spec).encode())
    found = as_said(said.decode())
    assert code == found[0], complained
    return found


def as_said(lines: str) -> tuple[int, dict[str, dict[str, Any]], dict[str, Any] | None]:
    """Exit code, steps by name and figures."""
    said = [json.loads(line) for line in lines.splitlines()]
    steps = {one["step"]: one for one in said if "step" in one}
    code = next((step["exit_code"] for step in steps.values() if step.get("exit_code")), 0)
    return code, steps, next((one["figures"] for one in said if "figures" in one), None)


def module(folder: Path, text: str) -> None:
    """A module `mine` beside the user."""
    (folder / "mine.py").write_text(text, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.timeout(100)
def test_a_good_spec_passes_every_step_and_is_measured(tmp_path: Path) -> None:
    """Workers too; memory counts them, and hours follow from the measured speed."""
    code, steps, figures = checked(tmp_path, env={"vec": "workers", "n_workers": 2})
    assert (code, tuple(steps)) == (0, SMOKE_STEPS)
    assert {step["level"] for step in steps.values()} <= {"ok", "note"}, steps
    assert "2 x CartPole-v1, workers on 2 workers" in steps["build"]["detail"]
    assert figures is not None
    assert figures["n_workers"] == 2
    assert figures["memory_bytes"] > 2 * figures["worker_bytes"] > 2 << 20
    assert figures["hours"] * 3600 == pytest.approx(6 * figures["update_s"])
    assert figures["steps_per_s"] * figures["update_s"] == pytest.approx(64)


@pytest.mark.slow
@needs_gcc
@pytest.mark.timeout(100)
@pytest.mark.usefixtures("machine")
def test_the_device_is_the_one_that_the_run_will_compute_on(tmp_path: Path) -> None:
    """Beside a card that is slower for such a net: the CPU, with the reason, and no memory of that card. What was
    measured stays in the runs root for the run, and nothing else does.
    """
    module(tmp_path, CARD)
    root = tmp_path / "runs"
    code, steps, figures = checked(tmp_path, root=root, env={"imports": ["mine"]}, run={"device": "auto"})
    assert code == 0, steps
    assert steps["device"]["detail"].startswith("cpu: this net is faster on the CPU: ")
    (kept,) = all_kept(root)
    assert kept.speeds.sentence.partition(" (")[0] in steps["device"]["detail"]
    assert [path.name for path in root.iterdir()] == ["tuning"]
    assert steps["build"]["detail"].endswith("on cpu")
    assert figures is not None
    assert figures["vram_bytes"] is None


@pytest.mark.slow
@pytest.mark.timeout(100)
@pytest.mark.skipif(find_spec("sb3_contrib") is None, reason="needs the `contrib` extra")
def test_a_search_is_measured_by_the_steps_that_its_episodes_had(tmp_path: Path) -> None:
    """100 episodes of 8 steps, where 500 are only the least that its settings tell."""
    module(tmp_path, ENV.replace("STEP", "return np.zeros(3, np.float32), 0.0, False, False, {}"))
    env = {"id": "mine:Odd-v0", "n_envs": 1, "vec": "inline"}
    _, steps, figures = tried(tmp_path, env=env, ars={"n_delta": 50}, run={"algo": "ars"})
    assert steps["rollout"]["detail"] == "at least 500 transitions"
    assert steps["update"]["detail"] == "returns and weights are finite"
    assert figures is not None
    assert figures["steps_per_s"] * figures["update_s"] == pytest.approx(800)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import ctypes\nctypes.string_at(0)", "was killed by SIGSEGV, at {mine}:2"),
        ("import os\nos._exit(3)", "ended with exit code 3 without a word"),
        ("import sys\nsys.exit('no licence')", "ended with exit code 1; it last said: no licence"),
        ("import time\nwhile True:\n    time.sleep(0.1)", "did not come back within 3 s, at {mine}:"),
        ("import broken_native", "broken_native"),
        ("import ctypes\nctypes.CDLL('libnot_here.so.7')", "libnot_here.so.7: cannot open shared object file"),
        ("1 / 0", "division by zero"),
    ],
)
def test_an_import_that_does_not_come_back_is_named_with_its_key(text: str, said: str, tmp_path: Path) -> None:
    """Module, key, how it ended and in which line; the next steps are not reached."""
    (tmp_path / "broken_native.abi3.so").write_bytes(b"\x7fELF and no more")
    module(tmp_path, text)
    code, steps, figures = checked(tmp_path, 3 if "while" in text else 60, env={"imports": ["mine"]})
    assert code == 78
    assert figures is None
    assert tuple(steps) == ("versions", "imports", "leftovers")
    assert steps["imports"]["level"] == "failed"
    detail = steps["imports"]["detail"]
    assert detail.startswith("env.imports: ")
    assert "'mine'" in detail
    assert said.format(mine=tmp_path / "mine.py") in detail


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler here")
def test_a_native_module_that_crashes_is_named(tmp_path: Path) -> None:
    """A real shared library with a null pointer in its constructor: the line that loads it is said."""
    (tmp_path / "native.c").write_text("__attribute__((constructor)) static void go(void) { *(volatile int *)0 = 1; }")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", "native.so", "native.c"], cwd=tmp_path, check=True)
    module(tmp_path, f"import ctypes\n\nctypes.CDLL({str(tmp_path / 'native.so')!r})")
    code, steps, _ = checked(tmp_path, env={"imports": ["mine"]})
    assert code == 78
    assert f"was killed by SIGSEGV, at {tmp_path / 'mine.py'}:3" in steps["imports"]["detail"]


@pytest.mark.slow
@pytest.mark.timeout(100)
def test_what_hangs_after_the_first_update_is_named_with_its_line(tmp_path: Path) -> None:
    """It is not the update that hangs, nor the thread that writes TensorBoard's events."""
    step = "import time\n        Odd.n = getattr(Odd, 'n', 0) + 1\n        while Odd.n > 200: time.sleep(0.1)\n"
    module(tmp_path, ENV.replace("STEP", f"{step}        return np.zeros(3, np.float32), 0.0, False, False, {{}}"))
    env = {"id": "mine:Odd-v0", "n_envs": 1, "vec": "inline"}
    code, steps, _ = checked(tmp_path, 20, env=env)
    assert code == 1
    detail = steps["update"]["detail"]
    assert detail.startswith("training on, to measure its speed: the process did not come back within 20 s"), steps
    assert f"at {tmp_path / 'mine.py'}:" in detail


def test_what_was_started_meanwhile_is_ended(tmp_path: Path) -> None:
    """Also a process in a session of its own, whose parent has left; the check says that there was one."""
    module(
        tmp_path,
        "import subprocess\n"
        "shell = subprocess.Popen(['sh', '-c', 'setsid sleep 600 & echo $!'], stdout=subprocess.PIPE)\n"
        "open('pid', 'wb').write(shell.stdout.readline())\n"
        "shell.stdout.close()\n"
        "raise OSError('and then this')\n",
    )
    code, steps, _ = checked(tmp_path, env={"imports": ["mine"]})
    assert code == 78
    assert "and then this" in steps["imports"]["detail"]
    assert steps["leftovers"]["level"] == "note"
    assert "1 process was left running" in steps["leftovers"]["detail"]
    pid = int((tmp_path / "pid").read_text())
    until(lambda: not psutil.pid_exists(pid), 5)


@pytest.mark.slow
@pytest.mark.timeout(100)
def test_an_environment_that_breaks_the_contract_is_named_and_tried_all_the_same(tmp_path: Path) -> None:
    """SB3's checker refuses its observation, by file and line; PPO trains on it, and that is said as well."""
    module(tmp_path, ENV.replace("STEP", "return np.zeros(3, np.float64) + 2.0, 0.0, False, False, {}"))
    code, steps, figures = tried(tmp_path, env={"id": "mine:Odd-v0"})
    assert code == 1
    assert steps["env"]["level"] == "failed"
    assert "env.id 'mine:Odd-v0' breaks the contract of SB3's check_env" in steps["env"]["detail"]
    assert steps["update"]["level"] == "ok"
    assert figures is not None


@pytest.mark.slow
@pytest.mark.timeout(100)
def test_a_step_that_raises_is_the_rollouts_failure(tmp_path: Path) -> None:
    """With the environment's own line; what comes after it is not reached."""
    module(tmp_path, ENV.replace("STEP", "raise KeyError('wheel')"))
    code, steps, figures = tried(tmp_path, env={"id": "mine:Odd-v0"})
    assert code == 1
    assert "wheel" in steps["env"]["detail"]
    assert steps["rollout"]["level"] == "failed"
    assert "mine.py:" in steps["rollout"]["detail"]
    assert "update" not in steps
    assert figures is None


class Blind(gymnasium.Env[Any, Any]):
    """Shows the same whatever is done, but for its last value where `sees` is."""

    def __init__(self, sees: bool = False) -> None:
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (3,))
        self.action_space = gymnasium.spaces.Discrete(2)
        self._sees = sees

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(3, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.array([0.0, 0.0, self._sees], np.float32), 0.0, False, False, {}


@pytest.mark.parametrize("sees", [False, True])
def test_observations_that_never_change_are_a_note(monkeypatch: pytest.MonkeyPatch, sees: bool) -> None:
    """No setting teaches a policy that sees nothing; one value that changes is enough."""
    monkeypatch.setattr(smoke_attempt, "make_env", lambda env, seed, around: Blind(sees))
    level, detail = smoke_attempt.check_one(Spec(preset="p", env=EnvSpec(id="Blind-v0")), lambda said: None)
    assert ("observations did not change in 50 steps of random actions" in detail) is not sees
    assert sees or level == "note"


def test_modules_are_known_by_their_keys() -> None:
    """Each once, in the order of the spec, with or without arguments; an id without a module names none."""
    env = EnvSpec(id="mine:Odd-v0", imports=("first", "second"), wrappers=("wraps.it:Wrapper", "first:Wrapper"))
    ppo = PpoSpec(policy="nets:Policy", policy_kwargs={"features_extractor_class": "nets.cnn:Cnn", "log_std_init": 0.0})
    assert named_modules(Spec(preset="p", env=env, ppo=ppo, run=RunSpec())) == (
        ("env.imports", "first"),
        ("env.imports", "second"),
        ("env.id", "mine"),
        ("env.wrappers", "wraps.it"),
        ("ppo.policy", "nets"),
        ("ppo.policy_kwargs.features_extractor_class", "nets.cnn"),
    )
    assert named_modules(Spec(preset="p", env=EnvSpec(id="envpool:Pong-v5"))) == ()
