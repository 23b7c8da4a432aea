"""What a trainer loads: everything before its first environment step, and torch's compiler not at all."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mission_tui.trainer.process import collecting_later
from tests.trainer.harness import new_run, spec_with

ROOT = Path(__file__).parents[2]

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


def python(code: str, *words: str, timeout_s: float = 50) -> str:
    """What a fresh interpreter prints."""
    environ = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, env=environ, check=True, timeout=timeout_s, stdout=subprocess.PIPE, text=True).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "tables",
    [
        {},
        {"env": {"id": "MissionGym-v0", "config": "demo", "vec": "native", "n_envs": 4, "normalize": {}}},
        {"ppo": {"policy_kwargs": {"optimizer_class": "torch.optim.RMSprop"}, "target_kl": 0.01}},
        {"run": {"precision": "bf16"}},
    ],
    ids=["inline", "native", "another optimizer", "bf16"],
)
def test_nothing_is_loaded_after_the_first_environment_step(tables: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    """An upgrade under a live run reaches nothing that it needs until its last checkpoint; there is no compiler."""
    run_dir = new_run(tmp_path / "run", spec_with(**tables))
    assert python(TRAIN, str(run_dir.path), "1") == "[] False\n"


@pytest.mark.slow
def test_nothing_is_loaded_by_what_a_run_is_asked_to_do(tmp_path: Path) -> None:
    """A checkpoint, other settings, a pause and a stop are there from the beginning."""
    run_dir = new_run(tmp_path / "run", spec_with())
    assert python(OBEY, str(run_dir.path)) == "[] 4\n"


@pytest.mark.slow
def test_an_env_worker_loads_nothing_after_its_first_step(tmp_path: Path) -> None:
    """Episodes end, infos travel and the worker leaves with what it had when it began."""
    (tmp_path / "watching.py").write_text(ENV, encoding="utf-8")
    out = tmp_path / "loaded.json"
    env = {"id": "watching:Watching-v0", "vec": "workers", "n_workers": 1, "kwargs": {"out": str(out)}}
    run_dir = new_run(tmp_path / "run", spec_with(env=env))
    beside = f"import os, sys\nsys.path.append({str(tmp_path)!r})\nos.environ['PYTHONPATH'] += {f':{tmp_path}'!r}\n"
    assert python(beside + TRAIN, str(run_dir.path), "1") == "[] False\n"
    assert out.read_text() == "[]"


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_compiled_run_loads_its_compiler_before_the_first_environment_step(tmp_path: Path) -> None:
    """It is there then, it has done its work, and nothing else is loaded afterwards."""
    run_dir = new_run(tmp_path / "run", spec_with(run={"compile": True}))
    assert python(TRAIN, str(run_dir.path), "1", timeout_s=100) == "[] True\n"


@pytest.mark.slow
def test_optimizers_without_the_compiler_compute_the_same() -> None:
    """Parameters are equal bit for bit, and gradients are recorded again after a step."""
    assert python(DESCEND, "eager") == python(DESCEND, "torch")


def test_what_is_loaded_before_a_fork_asks_no_driver() -> None:
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
from mission_tui.preloader import loading
loading._rehearse()
print(len(os.listdir("/proc/self/task")))
"""
    assert python(code) == "1\n"


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
