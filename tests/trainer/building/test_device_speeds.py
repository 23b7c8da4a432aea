"""A run's own net measured on the CPU and on a card that is not there, whose tensors take the longer road."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from gymnasium.spaces import Discrete
from msgspec import structs

from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.tuning.record import DeviceSpeeds
from mission_tui.records import tuning_files
from mission_tui.records.tuning_files import keep_speeds, measured_of
from mission_tui.trainer.building import device_speeds
from mission_tui.trainer.building.device_speeds import NetShape, speeds_apart
from mission_tui.trainer.building.model import choose_device, compare_devices, ppo_arguments
from mission_tui.trainer.ppo import FastPPO
from mission_tui.trainer.process import children
from mission_tui.trainer.vec_env import build_vec_env
from tests.missing import REPOSITORY
from tests.nvml import library, machine, needs_gcc  # noqa: F401 - fixtures
from tests.stand_in_cuda import stand_in_cuda
from tests.trainer.contrib_cases import MASKABLE, RECURRENT, needs_contrib
from tests.trainer.harness import PROBES, new_run, run_attempt, spec_with, stop_in
from tests.waiting import until

IMAGES = {"env": {"id": "ImageWalk-v0", **PROBES}, "ppo": {"policy": "CnnPolicy", "n_steps": 16, "batch_size": 16}}


def run_of(**tables: Any) -> tuple[Spec, NetShape, dict[str, Any]]:
    """What a net is measured by."""
    spec = spec_with(**tables)
    vec = build_vec_env(spec, None).vec
    try:
        return spec, NetShape.of(vec), ppo_arguments(spec)
    finally:
        vec.close()


@pytest.mark.parametrize(
    "case",
    [
        pytest.param({"run": {"engine": "stock"}, "env": {"normalize": True}}, id="SB3's engine"),
        pytest.param(IMAGES, id="images"),
        pytest.param(RECURRENT, id="recurrent", marks=(needs_contrib, pytest.mark.slow)),
        pytest.param(MASKABLE, id="maskable", marks=(needs_contrib, pytest.mark.slow)),
    ],
)
def test_every_kind_of_net_is_measured_by_its_own_engine(case: dict[str, Any]) -> None:
    """As many times on the card as on the CPU, with nothing mixed."""
    with stand_in_cuda():
        speeds = compare_devices(*run_of(**case), within_s=0.1)
    assert len(speeds.cpu_s) == len(speeds.gpu_s) >= 2
    assert min(*speeds.cpu_s, *speeds.gpu_s) > 0


def test_what_an_update_does_once_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for each of its epochs: the seconds are those of a whole update of the run."""
    once_s, epoch_s, epochs = 0.02, 0.002, 20
    clock = [0.0]

    def update(model: FastPPO) -> None:
        clock[0] += once_s + epoch_s * model.n_epochs

    monkeypatch.setattr(FastPPO, "update", update)
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    spec, shape, arguments = run_of(ppo={"n_epochs": epochs})
    (taken, *_) = compare_devices(spec, shape, arguments, "cpu", within_s=0.1).cpu_s
    assert once_s + epoch_s * epochs <= taken < 10 * once_s


def card(folder: Path, first: str = "") -> dict[str, Any]:
    """A run whose own module puts a slow card that is not there into each process that imports it, and does `first`
    before that.
    """
    (folder / "card.py").write_text(
        f"import os, sys, time\nsys.path.append({str(REPOSITORY)!r})\n{first}\n"
        "from tests.stand_in_cuda import stand_in_cuda\nhere = stand_in_cuda()\nhere.__enter__()\n"
        "from mission_tui.trainer.building.device_speeds import _Side\n"
        "_Side.update_seconds = lambda side: 0.01 if side.device == 'cpu' else 0.03\n"
    )
    return {"env": {"imports": ["card"]}}


@pytest.mark.slow
def test_a_trainer_has_them_measured_in_a_process_that_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the card is asked in the trainer's own, which may train for weeks on the CPU."""

    def here(*_: object, **__: object) -> None:
        raise AssertionError("measured in the trainer")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mission_tui.trainer.building.model.compare_devices", here)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    monkeypatch.setattr("torch.cuda.is_available", here)
    spec, shape, _ = run_of()
    imported = structs.replace(spec, env=structs.replace(spec.env, **card(tmp_path)["env"]))
    there = children()
    device, why = choose_device("auto", None, imported, shape)
    assert device == "cpu"
    assert why.startswith("this net is faster on the CPU: ")
    assert children() == there


CPU_FASTER = DeviceSpeeds(cpu_s=(0.01, 0.0101, 0.01), gpu_s=(0.031, 0.031, 0.0312))
GPU_FASTER = DeviceSpeeds(cpu_s=CPU_FASTER.gpu_s, gpu_s=CPU_FASTER.cpu_s)


@pytest.fixture
def one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with one, on which no process is started to measure."""

    def measured(*_: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(tuning_files, "host_fingerprint", lambda: {"host": "here", "gpus": "H100"})
    monkeypatch.setattr(device_speeds, "speeds_apart", measured)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)


def kept_here(root: Path, spec: Spec, shape: NetShape, speeds: DeviceSpeeds) -> None:
    """As by a run before, or a check."""
    keep_speeds(root, measured_of(spec, sys.executable, os.environ), shape.spaces, speeds)


@pytest.mark.usefixtures("one_gpu")
def test_a_run_starts_with_what_was_measured_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another seed of the net, on a GPU of its own: no process for it, no context on the card, and it says so."""

    def touched(*_: object, **__: object) -> None:
        raise AssertionError("a CUDA context was made")

    monkeypatch.setattr("torch.cuda._lazy_init", touched)
    monkeypatch.setattr("torch.cuda.is_available", touched)
    spec, shape, _ = run_of(run={"device": "auto"})
    kept_here(tmp_path, spec, shape, CPU_FASTER)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1f")
    other = structs.replace(spec, run=structs.replace(spec.run, seed=99))
    said = f"{CPU_FASTER.sentence}; measured before, and kept"
    assert choose_device("auto", None, other, shape, tmp_path) == ("cpu", said)
    ran = run_attempt(new_run(tmp_path / "run", spec))
    assert (ran.exit_code, ran.started().device) == (0, "cpu")
    assert said in ran.run_dir.attempt(1).effective.read_text()


@pytest.mark.usefixtures("one_gpu")
def test_a_gpu_that_was_faster_must_still_compute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Full or broken by now: the run trains on the CPU, and says why."""

    def full(*_: object, **__: object) -> None:
        raise RuntimeError("CUDA out of memory")

    spec, shape, _ = run_of()
    kept_here(tmp_path, spec, shape, GPU_FASTER)
    with stand_in_cuda():
        device, why = choose_device("auto", None, spec, shape, tmp_path)
        assert (device, why) == ("cuda", f"{GPU_FASTER.sentence}; measured before, and kept")
    monkeypatch.setattr("torch.ones", full)
    assert choose_device("auto", None, spec, shape, tmp_path) == ("cpu", "the GPU cannot compute: CUDA out of memory")


@pytest.mark.usefixtures("one_gpu")
def test_spaces_that_changed_under_the_same_name_are_measured_anew(tmp_path: Path) -> None:
    """As by an edit of the user's own environment."""
    spec, shape, _ = run_of()
    kept_here(tmp_path, spec, replace(shape, actions=Discrete(9)), CPU_FASTER)
    with pytest.raises(AssertionError, match="a process was started"):
        choose_device("auto", None, spec, shape, tmp_path)


QUICK = """
open("measured", "a").write("x")
import torch
torch.cuda.is_available = lambda: True
import mission_tui.trainer.building.model as model
from mission_tui.fleet.tuning.record import DeviceSpeeds
model.compare_devices = lambda *_: DeviceSpeeds(cpu_s=(1.0, 1.01, 1.0), gpu_s=(2.0, 2.01, 2.0))
"""


@pytest.mark.slow
@needs_gcc
@pytest.mark.usefixtures("machine")
def test_of_several_that_start_at_once_one_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others wait for it and say that they have not; the next one starts no process at all."""
    (tmp_path / "quick.py").write_text(QUICK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    spec, shape, _ = run_of()
    imported = structs.replace(spec, env=structs.replace(spec.env, imports=("quick",)))
    root = tmp_path / os.fsdecode(b"l\xe4ufe")
    with ThreadPoolExecutor() as trainers:
        asked = [trainers.submit(speeds_apart, imported, shape, root) for _ in range(3)]
        answers = [each.result() for each in asked]
    assert sorted(kept for _, kept in answers) == [False, True, True]
    assert len({speeds for speeds, _ in answers}) == 1
    assert (tmp_path / "measured").read_text() == "x"
    monkeypatch.setattr(device_speeds, "speeds_apart", None)
    device, why = choose_device("auto", None, imported, shape, root)
    assert device == "cpu"
    assert why.endswith("; measured before, and kept")


@pytest.mark.parametrize("engine", ["fast", "stock"])
def test_a_run_that_comes_to_the_cpu_asks_nothing_of_the_card(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its updates nor its checkpoints nor a resume: a context on the GPU takes half a gigabyte there, and more
    here, until the process ends.
    """

    def touched(*_: object, **__: object) -> None:
        raise AssertionError("a CUDA context was made")

    asked: list[Spec] = []

    def measured(spec: Spec, *_: object) -> tuple[DeviceSpeeds, bool]:
        asked.append(spec)
        return CPU_FASTER, False

    monkeypatch.setattr(device_speeds, "speeds_apart", measured)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda._lazy_init", touched)
    run = new_run(tmp_path / "run", spec_with(run={"device": "auto", "engine": engine}))
    stopped = run_attempt(run, hook=stop_in("rollout", 2))
    going_on = run_attempt(run, 2, stopped.ended().checkpoint)
    assert (going_on.exit_code, going_on.started().device) == (0, "cpu")
    assert len(asked) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "why"),
    [
        ("os._exit(3)", "ended with exit code 3"),
        ("os.kill(os.getpid(), 11)", "ended with signal 11 (Segmentation fault)"),
        ("raise OSError('no such file')", "no such file"),
        ("time.sleep(600)", "the comparison with the CPU did not end within 3 s"),
    ],
)
def test_a_measurement_that_fails_leaves_the_cpu_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, why: str
) -> None:
    """Crashed, hung, refused: the run trains all the same, and nothing of the attempt is left."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    monkeypatch.setattr(device_speeds, "speeds_apart", partial(speeds_apart, within_s=3.0))
    spec, shape, _ = run_of()
    imported = structs.replace(spec, env=structs.replace(spec.env, **card(tmp_path, first)["env"]))
    there = children()
    device, said = choose_device("auto", None, imported, shape)
    assert device == "cpu"
    assert why in said
    assert children() == there


@pytest.fixture
def timings(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[float]]:
    """Seconds of an update by device, first ones first; each takes that long on the clock too."""
    given: dict[str, list[float]] = {"cpu": [], "cuda": []}
    clock = [0.0]

    class Side:
        def __init__(self, _build: Any, _shape: Any, _arguments: Any, device: str) -> None:
            self.device = device

        def update_seconds(self) -> float:
            clock[0] += given[self.device][0]
            return given[self.device].pop(0) if len(given[self.device]) > 1 else given[self.device][0]

    monkeypatch.setattr(device_speeds, "_Side", Side)
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    return given


def test_auto_takes_the_device_on_which_it_is_faster(
    timings: dict[str, list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The GPU too where neither is; with the sentence that says so."""
    spec, shape, arguments = run_of()
    monkeypatch.setattr(device_speeds, "speeds_apart", lambda *_: (compare_devices(spec, shape, arguments), False))
    for cpu, device, why in (
        ([0.1], "cpu", "this net is faster on the CPU: 3.0 x"),
        ([0.9], "cuda", "this net is faster on the GPU: 3.0 x"),
        ([0.1, 0.9, 0.3], "cuda", "this net is not clearly faster on the CPU or on the GPU"),
    ):
        timings.update(cpu=cpu, cuda=[0.3])
        with stand_in_cuda():
            chosen, said = choose_device("auto", None, spec, shape)
        assert (chosen, said[: len(why)]) == (device, why)


def test_it_ends_once_it_is_certain_and_after_its_time_otherwise(timings: dict[str, list[float]]) -> None:
    """Three clear pairs are enough; unclear ones go on until their seconds are over; slow ones are two."""
    run = run_of()
    with stand_in_cuda():
        timings.update(cpu=[1.0], cuda=[0.2])
        clear = compare_devices(*run, within_s=100.0)
        timings.update(cpu=[0.1, 0.3, 0.05], cuda=[0.2])
        unclear = compare_devices(*run, within_s=1.5)
        timings.update(cpu=[90.0], cuda=[30.0])
        slow = compare_devices(*run, within_s=4.0)
    assert (len(clear.cpu_s), clear.faster) == (3, "cuda")
    assert 3 < len(unclear.cpu_s) < 12
    assert (len(slow.gpu_s), slow.faster) == (2, "cuda")


@pytest.mark.slow
def test_a_card_that_cannot_compute_leaves_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of memory, or of a kind that this torch has no kernels for: the run trains, and says why where."""
    full = "import torch\ndef full(*_): raise RuntimeError('CUDA out of memory')\ntorch.cuda.synchronize = full"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    spec, shape, _ = run_of()
    imported = structs.replace(spec, env=structs.replace(spec.env, **card(tmp_path)["env"]))
    with (tmp_path / "card.py").open("a") as module:
        module.write(full)
    assert choose_device("auto", None, imported, shape) == ("cpu", "the GPU cannot compute: CUDA out of memory")


@pytest.mark.slow
def test_a_measurement_ends_with_the_trainer_that_asked(tmp_path: Path) -> None:
    """Killed at once, it can end nobody any more."""
    card(tmp_path, "open('begun', 'w').write(str(os.getpid())); time.sleep(600)")
    spec, shape, _ = run_of()
    imported = structs.replace(spec, env=structs.replace(spec.env, imports=("card",)))
    (tmp_path / "spec").write_bytes(msgspec.json.encode(imported) + b"\n" + pickle.dumps(shape))
    trainer = subprocess.Popen(
        [sys.executable, "-c", ASKING, str(tmp_path / "spec")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    begun = tmp_path / "begun"
    until(lambda: begun.is_file() and begun.read_text())
    trainer.kill()
    trainer.wait()
    until(lambda: not alive(int(begun.read_text())))


ASKING = """
import pickle, sys
from mission_tui.trainer.building.device_speeds import speeds_apart
from mission_tui.trainer.process import asked_spec
spec, _, shape = open(sys.argv[1], "rb").read().partition(b"\\n")
speeds_apart(asked_spec(spec), pickle.loads(shape))
"""


def alive(pid: int) -> bool:
    """Whether it runs; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
