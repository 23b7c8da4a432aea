"""What a trainer loads: everything before its first environment step, and torch's compiler not at all.

Most are forks of an interpreter that has loaded only what every training loads before its first step: loading it anew
takes each a second and a half. One is started anew, and shows that this is so.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mission_tui.trainer.process import collecting_later
from tests.trainer.harness import new_run, spec_with

ROOT = Path(__file__).parents[2]
ENVIRON = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}

TRAIN = """
import sys
from mission_tui.trainer.__main__ import main
from mission_tui.trainer.record import Record

loaded = set()
say = Record.phase

def phase(record, name):
    if name == "rollout" and not loaded:
        loaded.update(sys.modules)
    say(record, name)

Record.phase = phase
assert main(sys.argv[1:]) == 0
print(sorted(set(sys.modules) - loaded), "torch._dynamo" in sys.modules)
"""

FORKS = """
import json, os, sys, traceback
import stable_baselines3

print(json.dumps(sorted(sys.modules)), flush=True)
for line in sys.stdin:
    code, *sys.argv[1:] = json.loads(line)
    out = sys.argv.pop()
    if (child := os.fork()) == 0:
        status = 70
        try:
            os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT), 1)
            exec(compile(code, "<test>", "exec"), {"__name__": "__main__"})
            sys.stdout.flush()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""

OBEY = """
import sys
from pathlib import Path
from mission_tui.ipc.telemetry_messages import Order
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.__main__ import train
from mission_tui.trainer.orders import Attempt
from mission_tui.trainer.orders import Link
from mission_tui.trainer.orders import Orders
from mission_tui.trainer.record import Record
from mission_tui.ipc.telemetry_messages import PhaseEntered

loaded = set()
attempt, orders = Attempt(RunDir(Path(sys.argv[1])), 1, None), Orders()
given = {
    1: (Order("checkpoint"),),
    2: (Order("set", number=1, assignments=("ppo.learning_rate=1e-4", "ppo.batch_size=16")),),
    3: (Order("pause"), Order("unpause"), Order("keep")),
    4: (Order("stop"),),
}

def hear(message):
    if not isinstance(message, PhaseEntered) or message.phase != "rollout":
        return
    if not loaded:
        loaded.update(sys.modules)
    for order in given.get(message.update, ()):
        orders.obey(order)

with Record(attempt.run_dir, 1, hear) as record:
    assert train(attempt, record, orders, Link(attempt, {})) == 0
print(sorted(set(sys.modules) - loaded), record.update)
"""

ENV = """
import json, sys
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

class Watching(CartPoleEnv):
    def __init__(self, out):
        super().__init__()
        self.out, self.loaded = out, None

    def step(self, action):
        self.loaded = self.loaded or set(sys.modules)
        return super().step(action)

    def close(self):
        super().close()
        if self.loaded is not None:
            open(self.out, "w").write(json.dumps(sorted(set(sys.modules) - self.loaded)))

gymnasium.register("Watching-v0", Watching, max_episode_steps=20)
"""

DESCEND = """
import sys
import torch
from mission_tui.trainer.torch_compiler import use_plain_optimizers

if sys.argv[1] == "eager":
    use_plain_optimizers()
torch.manual_seed(1)
for kind in (torch.optim.Adam, torch.optim.RMSprop):
    net = torch.nn.Linear(3, 2)
    optimizer = kind(net.parameters(), lr=0.01)
    for _ in range(4):
        optimizer.zero_grad()
        net(torch.randn(8, 3)).square().mean().backward()
        optimizer.step()
        optimizer.load_state_dict(optimizer.state_dict())
    assert torch.is_grad_enabled()
    print([parameter.detach().numpy().tobytes().hex() for parameter in net.parameters()])
assert ("torch._dynamo" in sys.modules) == (sys.argv[1] == "torch")
"""


def python(code: str, *words: str) -> str:
    """What a fresh interpreter prints."""
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, env=ENVIRON, check=True, timeout=50, stdout=subprocess.PIPE, text=True).stdout


@dataclass(frozen=True)
class Loaded:
    """An interpreter that has torch and SB3, and the names of all its modules."""

    process: subprocess.Popen[str]
    modules: frozenset[str]

    def fork(self, code: str, *words: str) -> str:
        """What the code prints in a fork of it."""
        assert self.process.stdin is not None
        with tempfile.NamedTemporaryFile("r") as out:
            self.process.stdin.write(json.dumps([code, *words, out.name]) + "\n")
            self.process.stdin.flush()
            assert answer(self.process) == "0\n"
            return out.read()


def answer(process: subprocess.Popen[str]) -> str:
    """The next line that it says."""
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.fixture(scope="module")
def loaded() -> Iterator[Loaded]:
    """The one that the tests of this module fork."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", FORKS], env=ENVIRON, **pipes) as process:
        yield Loaded(process, frozenset(json.loads(answer(process))))
        process.kill()


@pytest.mark.slow
def test_a_trainer_loads_nothing_late_and_first_of_all_what_its_forks_have(loaded: Loaded, tmp_path: Path) -> None:
    """An upgrade under a live run reaches nothing that it needs until its last checkpoint; there is no compiler. What
    the interpreter of the other tests has loaded would have been loaded before the first step anyway: it hides nothing.
    """
    run_dir = new_run(tmp_path / "run", spec_with())
    late, early = python(TRAIN + "print(*loaded)", str(run_dir.path), "1").splitlines()
    assert late == "[] False"
    assert loaded.modules - set(early.split()) == set()


@pytest.mark.slow
@pytest.mark.parametrize(
    "tables",
    [
        {"env": {"id": "MissionGym-v0", "config": "demo", "vec": "native", "n_envs": 4, "normalize": {}}},
        {"ppo": {"policy_kwargs": {"optimizer_class": "torch.optim.RMSprop"}, "target_kl": 0.01}},
        {"run": {"precision": "bf16"}},
    ],
    ids=["native", "another optimizer", "bf16"],
)
def test_nothing_is_loaded_after_the_first_environment_step(
    tables: dict[str, dict[str, Any]], loaded: Loaded, tmp_path: Path
) -> None:
    """Nor of what such runs need besides."""
    run_dir = new_run(tmp_path / "run", spec_with(**tables))
    assert loaded.fork(TRAIN, str(run_dir.path), "1") == "[] False\n"


@pytest.mark.slow
def test_nothing_is_loaded_by_what_a_run_is_asked_to_do(loaded: Loaded, tmp_path: Path) -> None:
    """A checkpoint, other settings, a pause and a stop are there from the beginning."""
    run_dir = new_run(tmp_path / "run", spec_with())
    assert loaded.fork(OBEY, str(run_dir.path)) == "[] 4\n"


@pytest.mark.slow
def test_an_env_worker_loads_nothing_after_its_first_step(loaded: Loaded, tmp_path: Path) -> None:
    """Episodes end, infos travel and the worker leaves with what it had when it began."""
    (tmp_path / "watching.py").write_text(ENV, encoding="utf-8")
    out = tmp_path / "loaded.json"
    env = {"id": "watching:Watching-v0", "vec": "workers", "n_workers": 1, "kwargs": {"out": str(out)}}
    run_dir = new_run(tmp_path / "run", spec_with(env=env))
    beside = f"import os, sys\nsys.path.append({str(tmp_path)!r})\nos.environ['PYTHONPATH'] += {f':{tmp_path}'!r}\n"
    assert loaded.fork(beside + TRAIN, str(run_dir.path), "1") == "[] False\n"
    assert out.read_text() == "[]"


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_compiled_run_loads_its_compiler_before_the_first_environment_step(loaded: Loaded, tmp_path: Path) -> None:
    """It is there then, it has done its work, and nothing else is loaded afterwards."""
    run_dir = new_run(tmp_path / "run", spec_with(run={"compile": True}))
    assert loaded.fork(TRAIN, str(run_dir.path), "1") == "[] True\n"


@pytest.mark.slow
def test_optimizers_without_the_compiler_compute_the_same(loaded: Loaded) -> None:
    """Parameters are equal bit for bit, and gradients are recorded again after a step."""
    assert loaded.fork(DESCEND, "eager") == loaded.fork(DESCEND, "torch") != ""


FORKED = """
import sys
from mission_tui.trainer.building.effective import find_facts, loaded_modules
from tests.trainer.harness import spec_with

sys.path.append(sys.argv[1])
import early
find_facts()
import late
named = spec_with(env={"wrappers": ["gymnasium.wrappers:TimeAwareObservation"]})
for spec in (spec_with(), named):
    known = {name: (module.file, module.sha256) for name, module in loaded_modules(spec).modules.items()}
    assert {"early", "late"} <= known.keys()
    assert ("gymnasium.wrappers" in known) == (spec is named)
    # Asked as in a process that was not forked, and so found nothing out before.
    import mission_tui.trainer.building.effective as effective
    before, effective._loaded_before = effective._loaded_before, effective._Loaded()
    assert known == {name: (module.file, module.sha256) for name, module in loaded_modules(spec).modules.items()}
    effective._loaded_before = before
"""


def test_a_fork_records_what_was_loaded_before_it_and_since(loaded: Loaded, tmp_path: Path) -> None:
    """The files of the person's own, and of packages that the preset names: all, and each once."""
    for name in ("early", "late"):
        (tmp_path / f"{name}.py").write_text(f"NAME = {name!r}\n", encoding="utf-8")
    loaded.fork(FORKED, str(tmp_path))


def test_what_is_loaded_before_a_fork_asks_no_driver(loaded: Loaded) -> None:
    """Where torch is built for CUDA, its optimizers ask at each step whether there is a GPU: the driver begins a thread
    then, and a process with threads is never forked.
    """
    code = """
import os
import torch
def asked(*_, **__):
    raise AssertionError("the driver was asked")
torch.cuda._is_compiled = torch.backends.cuda.is_built = lambda: True
torch.cuda.is_available = torch.cuda._lazy_init = torch._C._cuda_getDeviceCount = asked
torch.accelerator.current_accelerator = asked
from mission_tui.preloader.__main__ import _warm_up
_warm_up()
print(len(os.listdir("/proc/self/task")))
"""
    assert loaded.fork(code) == "1\n"


@pytest.mark.slow
def test_torch_has_as_many_threads_as_the_run() -> None:
    """Where the environment says nothing, a trainer started by hand says it, and its threads wait without spinning."""
    threads = "3" if os.cpu_count() != 3 else "5"  # torch by itself has one for each core, or for each two
    code = """
import os, sys
for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY"):
    os.environ.pop(name, None)
from mission_tui.trainer.process import cap_threads
cap_threads(int(sys.argv[1]))
import torch
print(torch.get_num_threads(), os.environ["OMP_NUM_THREADS"], os.environ["OMP_WAIT_POLICY"])
"""
    assert python(code, threads) == f"{threads} {threads} PASSIVE\n"


def test_garbage_is_collected_again_after_loading() -> None:
    """Also when loading fails; what was loaded is never looked at again."""
    before = gc.get_freeze_count()
    with suppress(ImportError), collecting_later():
        assert not gc.isenabled()
        raise ImportError
    assert gc.isenabled()
    assert gc.get_freeze_count() > before
