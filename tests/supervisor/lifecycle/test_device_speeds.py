"""Before a run begins it is said where its net is slower, on a machine with a GPU: measured once, and kept."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from mission_tui.errors import MissionError
from mission_tui.fleet.specs.spec import LaunchItem, Spec
from mission_tui.fleet.tuning.record import DeviceSpeeds, TunePlan
from mission_tui.fleet.views.snapshot import GpuMeters
from mission_tui.ipc.replies import Checked, CheckFigures, Launched
from mission_tui.ipc.requests import Check, Launch, Tune
from mission_tui.records import tuning_files
from mission_tui.records.tuning_files import keep_speeds, measured_of, read_tune, tune_journal
from mission_tui.supervisor.host.children import Task, TaskError
from mission_tui.supervisor.lifecycle import capacity
from mission_tui.supervisor.verbs import launch
from tests.faults.simulated import NoGpu
from tests.supervisor.conftest import stub_spec
from tests.supervisor.simulated_lab import SimulatedLab

SPEEDS = DeviceSpeeds(cpu_s=(0.01, 0.0101, 0.01), gpu_s=(0.031, 0.031, 0.0312), gpu="H200")
SENTENCE = "this net is faster on the CPU: 3.1 x"


class OneGpu(NoGpu):
    """A machine with one."""

    note = ""

    def __init__(self) -> None:
        super().__init__()
        self.gpus = (GpuMeters(uuid="GPU-1", name="H200", memory_total=1 << 37, memory_used=0),)  # type: ignore[assignment]

    def present(self) -> bool:
        return True


class LateGpu(OneGpu):
    """One that is known once it has been waited for, as after a while in which nobody looked."""

    def __init__(self) -> None:
        super().__init__()
        self._there, self.gpus = self.gpus, ()

    async def first_word(self, within_s: float) -> None:
        assert within_s >= 5.0
        self.gpus = self._there


class Measuring:
    """The short process: `answer` is what it says and keeps, and `asked` are the specs that it was asked about."""

    def __init__(self) -> None:
        self.answer: dict[str, Any] | TaskError = {"speeds": msgspec.to_builtins(SPEEDS)}
        self.asked: list[Spec] = []

    async def __call__(self, task: Task, _limit_s: float) -> AsyncGenerator[dict[str, Any]]:
        asked, keeping = task.stdin.split(b"\n")
        spec = msgspec.json.decode(asked, type=Spec)
        self.asked.append(spec)
        yield {"doing": "measuring"}
        if isinstance(self.answer, TaskError):
            raise self.answer
        if "speeds" in self.answer:
            root = os.fsdecode(msgspec.json.decode(keeping, type=dict[str, bytes])["root"])
            trainer_keeps(Path(root), spec, task.environ)
        yield self.answer


def trainer_keeps(root: Path, spec: Spec, environ: Mapping[str, str]) -> None:
    """As a trainer's measurement does, and one for a supervisor."""
    keep_speeds(root, measured_of(spec, sys.executable, environ), "Box(4,) -> Discrete(2)", SPEEDS)


@pytest.fixture
def measuring(sim: SimulatedLab, monkeypatch: pytest.MonkeyPatch) -> Measuring:
    """The measurement, on a machine with one GPU."""
    sim.core.machine.gpu = OneGpu()  # type: ignore[assignment]
    monkeypatch.setattr(tuning_files, "host_fingerprint", lambda: {"host": "here", "gpus": "H200, H200"})
    said = Measuring()
    monkeypatch.setattr(capacity, "run_task", said)
    return said


def on(device: str) -> Spec:
    """A run that is to compute there."""
    spec = stub_spec()
    return structs.replace(spec, run=structs.replace(spec.run, device=device))


def of(sim: SimulatedLab) -> dict[str, Any]:
    """Who asks."""
    return {"cwd": str(sim.root), "python": sys.executable, "environ": {"PATH": sim.environ["PATH"]}}


def warned(sim: SimulatedLab, device: str) -> list[str]:
    """What a launch says of its device."""
    reply = sim.ask(lambda id_: Launch(id=id_, items=(LaunchItem(spec=on(device)),), **of(sim)))
    assert isinstance(reply, Launched)
    return [word for word in reply.warnings if "this net" in word]


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for environments that are tried before a run begins."""
    monkeypatch.setattr(capacity, "needs_no_preflight", lambda _spec: False)


@pytest.mark.usefixtures("tried")
def test_a_launch_says_that_it_names_the_slower_device(sim: SimulatedLab, measuring: Measuring) -> None:
    """Measured for the first of them and kept for the next; nothing is measured for `auto`, which takes the faster."""
    assert warned(sim, "auto") == []
    assert measuring.asked == []
    (said,) = warned(sim, "cuda")
    assert SENTENCE in said
    assert "run.device = 'cuda' takes the slower one" in said
    assert warned(sim, "cuda") == [said]
    assert warned(sim, "cpu") == []
    assert len(measuring.asked) == 1


def test_a_launch_of_many_runs_looks_at_the_machine_once(
    sim: SimulatedLab, measuring: Measuring, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the kernel's files do not name its GPUs that is a process each time."""
    looks: list[str] = []

    def host() -> dict[str, str]:
        looks.append("looked")
        return {"host": "here", "gpus": "H200"}

    monkeypatch.setattr(tuning_files, "host_fingerprint", host)
    items = tuple(LaunchItem(spec=on("cuda")) for _ in range(3))
    sim.ask(lambda id_: Launch(id=id_, items=items, **of(sim)))
    assert looks == ["looked"]
    assert measuring.asked == []


def test_a_launch_that_tries_nothing_waits_for_no_measurement(
    sim: SimulatedLab, measuring: Measuring, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A built-in environment begins at once, with the sentence if a check or a tune has found it."""

    async def smoke(*_: object) -> AsyncGenerator[CheckFigures]:
        yield CheckFigures(updates=1)

    assert warned(sim, "cuda") == []
    assert measuring.asked == []
    monkeypatch.setattr(launch, "_smoke", smoke)
    sim.ask(lambda id_: Check(id=id_, spec=on("cuda"), limit_s=9.0, **of(sim)))
    (said,) = warned(sim, "cuda")
    assert SENTENCE in said
    assert len(measuring.asked) == 1


@pytest.mark.usefixtures("tried")
def test_it_is_silent_without_a_gpu_and_where_it_cannot_be_measured(sim: SimulatedLab, measuring: Measuring) -> None:
    """A hint refuses nothing, and what was not measured is not kept."""
    measuring.answer = TaskError("killed")
    assert warned(sim, "cuda") == []
    measuring.answer = {"why": "torch sees no CUDA device"}
    assert warned(sim, "cuda") == []
    assert len(measuring.asked) == 2
    sim.core.machine.gpu = NoGpu()  # type: ignore[assignment]
    assert warned(sim, "cpu") == []
    assert len(measuring.asked) == 2


@pytest.mark.parametrize(("device", "level"), [("auto", "ok"), ("cuda", "note")])
def test_a_check_says_where_the_net_is_faster(
    sim: SimulatedLab, measuring: Measuring, monkeypatch: pytest.MonkeyPatch, device: str, level: str
) -> None:
    """A step after that of the device; a note where the preset names the slower one."""

    async def smoke(*_: object) -> AsyncGenerator[CheckFigures]:
        yield CheckFigures(updates=1)

    monkeypatch.setattr(launch, "_smoke", smoke)
    reply = sim.ask(lambda id_: Check(id=id_, spec=on(device), limit_s=9.0, **of(sim)))
    assert isinstance(reply, Checked)
    names = [step.name for step in reply.steps]
    assert names[names.index("device") + 1] == "speed"
    (step,) = (step for step in reply.steps if step.name == "speed")
    assert SENTENCE in step.detail
    assert step.level == level
    sim.core.machine.gpu = NoGpu()  # type: ignore[assignment]
    reply = sim.ask(lambda id_: Check(id=id_, spec=on("cpu"), limit_s=9.0, **of(sim)))
    assert isinstance(reply, Checked)
    assert "speed" not in [step.name for step in reply.steps]
    assert len(measuring.asked) == 1


def test_a_check_says_what_its_own_attempt_has_measured(
    sim: SimulatedLab, measuring: Measuring, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One comparison: that by which the run would choose its device, on a GPU of its own among others like it."""
    roots: list[Path] = []

    async def smoke(root: Path, spec: Spec, *_: object) -> AsyncGenerator[CheckFigures]:
        roots.append(root)
        trainer_keeps(root, spec, {"CUDA_VISIBLE_DEVICES": "GPU-2"})
        yield CheckFigures(updates=1)

    monkeypatch.setattr(launch, "_smoke", smoke)
    reply = sim.ask(lambda id_: Check(id=id_, spec=on("auto"), limit_s=9.0, **of(sim)))
    assert isinstance(reply, Checked)
    assert [step.detail for step in reply.steps if step.name == "speed"] == [SPEEDS.sentence]
    assert roots == [sim.root]
    assert measuring.asked == []


def test_a_check_waits_for_the_first_word_about_the_gpus(
    sim: SimulatedLab, measuring: Measuring, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it says of the machine is of one with its GPU, and so is which device is faster."""

    async def smoke(*_: object) -> AsyncGenerator[CheckFigures]:
        sim.core.machine.gpu = LateGpu()  # type: ignore[assignment]
        yield CheckFigures(updates=1)

    monkeypatch.setattr(launch, "_smoke", smoke)
    sim.core.machine.gpu = LateGpu()  # type: ignore[assignment]
    reply = sim.ask(lambda id_: Check(id=id_, spec=on("auto"), limit_s=9.0, **of(sim)))
    assert isinstance(reply, Checked)
    details = {step.name: step.detail for step in reply.steps}
    assert "first word" not in details["machine"]
    assert SENTENCE in details["speed"]
    assert len(measuring.asked) == 1


def test_a_tune_keeps_in_its_journal_where_the_net_is_faster(sim: SimulatedLab, measuring: Measuring) -> None:
    """Before its first probe, which cannot begin here."""
    plan, item = TunePlan(start_s=1.0), LaunchItem(spec=on("auto"))
    with pytest.raises(MissionError, match="no process is started"):
        sim.ask(lambda id_: Tune(id=id_, item=item, plan=plan, name="tune-one", go_on=False, **of(sim)))
    begun, _ = read_tune(tune_journal(sim.root, "tune-one"))
    assert begun.devices == SPEEDS
    assert len(measuring.asked) == 1
