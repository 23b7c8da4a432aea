"""The queue with real processes: what does not fit waits and begins by itself, on the GPU that was chosen for it."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import pytest
from msgspec import structs

from mission_tui.errors import PresetError, UsageError
from mission_tui.fleet.events.journal import AttemptEnded, AttemptStarting, FleetEvent
from mission_tui.fleet.specs.spec import KeepSpec, LaunchItem, LimitsKeep, Spec
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import Accepted, Launched
from mission_tui.ipc.requests import Launch, Resume, Set
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.attempt import read_launch
from tests.nvml import GIB, Machine, needs_gcc
from tests.supervisor.conftest import FOREVER, REPOSITORY, Lab, RunsRoot, stub_spec
from tests.supervisor.simulated_lab import SimulatedLab
from tests.waiting import until

SLOW = "600"
IDLE = f"gpu GPU-a 0 {GIB} {8 * GIB} 1 1\ngpu GPU-b 0 0 {8 * GIB} 1 1\n"


def spec(device: str = "cpu", total_timesteps: int = FOREVER, **limits: int) -> Spec:
    plain = stub_spec(total_timesteps)
    keep = KeepSpec(limits=LimitsKeep(**limits))  # type: ignore[arg-type]
    return structs.replace(plain, run=structs.replace(plain.run, device=device), keep=keep)


@pytest.fixture
def limits(idle_sim: SimulatedLab, tmp_path: Path) -> Path:
    """A supervisor whose user's `limits.toml` is this file."""
    return limits_of(idle_sim, tmp_path)


def limits_of(lab: RunsRoot, folder: Path) -> Path:
    """Start its supervisor with this file as the user's `limits.toml`."""
    file = folder / "config" / "mission-tui" / "limits.toml"
    file.parent.mkdir(parents=True)
    lab.start(XDG_CONFIG_HOME=str(folder / "config"))
    return file


def _launch_of(count: int, lab: RunsRoot, wanted: Spec, id_: int) -> Launch:
    environ = {"PATH": lab.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
    items = (LaunchItem(spec=wanted),) * count
    return Launch(id=id_, items=items, cwd=str(lab.root), python=sys.executable, environ=environ)


def begun(lab: RunsRoot) -> list[str]:
    """Names of the runs that have begun, in the order in which they did."""
    views = [view for view in lab.snapshot().runs if view.attempt]
    return [view.name for view in sorted(views, key=lambda view: view.started_t or 0.0)]


def test_a_launch_that_takes_turns_waits_for_its_own_group_alone(idle_sim: SimulatedLab, limits: Path) -> None:
    """`-j 2`: two of five at once, the others name those that they wait for; a run of another launch goes ahead."""
    limits.write_text("")
    wanted = spec(total_timesteps=64 * 4, group_runs=2)
    ask = _launch_of(5, idle_sim, wanted, 0)
    items = tuple(structs.replace(it, group="lr-ab12", name=f"lr-{n}") for n, it in enumerate(ask.items, 1))
    reply = idle_sim.ask(lambda id_: structs.replace(ask, id=id_, items=items))
    assert isinstance(reply, Launched)
    runs = [view.id for view in reply.runs]
    assert [view.state for view in reply.runs] == ["starting"] * 2 + ["queued"] * 3
    (said,) = {view.cause or "" for view in reply.runs[2:]}
    assert said.startswith("waits for its group: lr-1, lr-2 are live, and keep.limits.group_runs")
    (other,) = idle_sim.launch(spec=spec(total_timesteps=64), name="other")
    assert idle_sim.view(other).state != "queued"
    for run in runs:
        idle_sim.wait(run, lambda view: view.state == "ended")
    assert begun(idle_sim)[0:2] == ["lr-1", "lr-2"]
    started, ended = ([getattr(idle_sim.view(run), name) or 0.0 for run in runs] for name in ("started_t", "ended_t"))
    for at in started:
        assert sum(begin <= at < end for begin, end in zip(started, ended, strict=True)) <= 2


def test_those_that_wait_for_their_group_want_no_cores(idle_sim: SimulatedLab, limits: Path) -> None:
    """`-j 1`: of four one trains, so another launch is warned of two runs at once, not of five."""
    limits.write_text("")
    ask = _launch_of(4, idle_sim, spec(group_runs=1), 0)
    items = tuple(structs.replace(it, group="lr-ab12", name=f"lr-{n}") for n, it in enumerate(ask.items, 1))
    idle_sim.ask(lambda id_: structs.replace(ask, id=id_, items=items))
    plain = spec()
    wide = structs.replace(plain, run=structs.replace(plain.run, threads=idle_sim.snapshot().host.cores))
    reply = idle_sim.ask(partial(_launch_of, 1, idle_sim, wide))
    assert isinstance(reply, Launched)
    assert [it[:47] for it in reply.warnings if " need " in it] == ["2 runs, 1 of them live or queued already, need "]


def test_resumed_runs_of_a_group_take_turns_too(idle_sim: SimulatedLab, limits: Path) -> None:
    """`-j 1` holds when three are resumed: in the order of the launch, also under the next supervisor."""
    limits.write_text("")
    ask = _launch_of(3, idle_sim, spec(group_runs=1), 0)
    items = tuple(structs.replace(it, group="lr-ab12", name=f"lr-{n}") for n, it in enumerate(ask.items, 1))
    reply = idle_sim.ask(lambda id_: structs.replace(ask, id=id_, items=items))
    assert isinstance(reply, Launched)
    first, second, third = runs = [view.id for view in reply.runs]
    for run in runs:
        idle_sim.wait(run, lambda view: view.update is not None and view.update > 0)
        idle_sim.act("stop", run)
        assert idle_sim.ended(run).outcome == "stopped"

    def resume(run: str, *words: str) -> Accepted:
        asked = idle_sim.ask(lambda id_: Resume(id=id_, run=run, assignments=words, accept=True))
        assert isinstance(asked, Accepted)
        return asked

    last = resume(third, "ppo.n_epochs=7")
    assert idle_sim.view(third).attempt == 2, "nobody of its group is live"
    idle_sim.act("stop", third)
    idle_sim.ended(third)
    assert not any("in its turn" in note for note in resume(first).notes)
    last = resume(third, "ppo.n_epochs=9")
    assert last.notes[-1].startswith("lr-3 goes on in its turn: it waits for its group: lr-1 is live")
    assert resume(second).notes[-1].startswith("lr-2 goes on in its turn: it waits for its group: lr-1 is live")
    idle_sim.sleep(6.0)
    view = idle_sim.view(second)
    assert (view.state, view.attempt, view.restart and view.restart.after) == ("queued", 1, "request")
    assert (view.cause or "").startswith("waits for its group: lr-1 is live")
    idle_sim.kill_supervisor()
    idle_sim.start(XDG_CONFIG_HOME=str(limits.parent.parent))
    idle_sim.act("stop", first)
    assert idle_sim.wait(second, lambda it: it.state == "running").attempt == 2
    idle_sim.sleep(6.0)
    assert (idle_sim.view(third).state, idle_sim.view(third).attempt) == ("queued", 2)
    idle_sim.act("stop", second)
    assert idle_sim.wait(third, lambda it: it.state == "running").attempt == 3
    went_on = idle_sim.core.store.run(third).spec
    assert went_on is not None
    assert went_on.ppo.n_epochs == 9
    resume(second)
    idle_sim.act("stop", second)
    assert idle_sim.view(second).state == "ended"


def test_without_a_number_a_launch_keeps_as_many_live_as_find_free_cores(idle_sim: SimulatedLab, limits: Path) -> None:
    """Whole seeds first, as launched; one lives however busy the cores are, and who is waited for is named."""
    limits.write_text("")
    wanted = spec(total_timesteps=64 * 4)
    cores = idle_sim.snapshot().host.cores
    wide = structs.replace(wanted, run=structs.replace(wanted.run, threads=cores))
    (other,) = idle_sim.launch(spec=wide, name="other", STUB_UPDATE_S=SLOW)
    ask = _launch_of(3, idle_sim, wide, 0)
    items = tuple(structs.replace(it, group="lr-ab12", name=f"lr-{n}") for n, it in enumerate(ask.items, 1))
    reply = idle_sim.ask(lambda id_: structs.replace(ask, id=id_, items=items))
    assert isinstance(reply, Launched)
    assert [view.state for view in reply.runs] == ["starting", "queued", "queued"]
    (said,) = {view.cause or "" for view in reply.runs[1:]}
    assert "so that all run at full speed" in said
    assert "lr-1 is live" in said
    assert "one begins now" in reply.warnings[0]
    assert "launch -j N" in reply.warnings[0]
    idle_sim.act("kill", other)
    for view in reply.runs:
        idle_sim.wait(view.id, lambda it: it.state == "ended")
    assert [name for name in begun(idle_sim) if name != "other"] == ["lr-1", "lr-2", "lr-3"]


def test_a_launch_of_many_starts_what_fits_and_drains(idle_sim: SimulatedLab, limits: Path) -> None:
    """Two at once by the user's limits, the others with the reason in their row; all train to the end by themselves."""
    limits.write_text("runs = 2\n")
    reply = idle_sim.ask(partial(_launch_of, 5, idle_sim, spec(total_timesteps=64 * 4)))
    assert isinstance(reply, Launched)
    runs = [view.id for view in reply.runs]
    assert [view.state for view in reply.runs] == ["starting"] * 2 + ["queued"] * 3
    first, *others = (view.cause or "" for view in reply.runs[2:])
    said = "waits for another run's end: limits.toml allows 2 at once, and as many are live"
    assert first == f"{said} (yours: {reply.runs[0].name}, {reply.runs[1].name})"
    assert others == [f"waits behind {reply.runs[2].name}, which waits for another run's end"] * 2
    assert f"{reply.runs[2].name} {first}" in reply.warnings
    assert f"{reply.runs[3].name}, {reply.runs[4].name}: each {others[0]}" in reply.warnings
    most = 0
    for run in runs:
        idle_sim.ended(run, 60)
        most = max(most, sum(view.state not in ("queued", "ended") for view in idle_sim.snapshot().runs))
    assert most <= 2
    assert {view.outcome for view in idle_sim.snapshot().runs} == {"finished"}


def test_an_important_run_goes_first(idle_sim: SimulatedLab, limits: Path) -> None:
    """It was launched last, and begins when the one that trains is over; limits are read again when they change."""
    limits.write_text("runs = 1\n")
    (first,) = idle_sim.launch(spec=spec(), name="first")
    idle_sim.launch(spec=spec(), name="plain")
    (important,) = idle_sim.launch(spec=spec(priority=1), name="important")
    idle_sim.act("kill", first)
    idle_sim.wait(important, lambda view: view.attempt)
    assert begun(idle_sim) == ["first", "important"]
    limits.write_text("runs = 2\n")
    idle_sim.until(lambda: begun(idle_sim) == ["first", "important", "plain"], 20)


def test_the_line_outlives_the_supervisor(idle_sim: SimulatedLab, limits: Path) -> None:
    """The next one keeps the order, and starts nothing that does not fit."""
    limits.write_text("runs = 1\n")
    (first,) = idle_sim.launch(spec=spec(), name="first")
    idle_sim.launch(spec=spec(), name="second")
    (third,) = idle_sim.launch(spec=spec(priority=2), name="third")
    idle_sim.kill_supervisor()
    idle_sim.start(XDG_CONFIG_HOME=str(limits.parents[1]))
    idle_sim.wait(third, lambda view: "limits.toml allows 1" in (view.cause or ""))
    idle_sim.act("kill", first)
    idle_sim.wait(third, lambda view: view.attempt)
    assert begun(idle_sim) == ["first", "third"]


def test_limits_that_nobody_understands_start_nothing(idle_sim: SimulatedLab, limits: Path) -> None:
    """A launch is refused with file, key and the nearest name; what is queued waits with that as its reason."""
    limits.write_text("runs = 1\n")
    (first,) = idle_sim.launch(spec=spec())
    (second,) = idle_sim.launch(spec=spec())
    limits.write_text("run = 1\n")
    with pytest.raises(PresetError, match=r"limits\.toml: .*run.*runs"):
        idle_sim.launch(spec=spec())
    idle_sim.act("kill", first)
    idle_sim.ended(first)
    idle_sim.wait(second, lambda view: "waits until it is known what runs may take" in (view.cause or ""))
    limits.unlink()
    idle_sim.running(second)


def test_what_can_never_fit_is_refused(idle_sim: SimulatedLab, limits: Path) -> None:
    """It would wait for ever: nothing is made, and the numbers are said."""
    limits.write_text('ram = "100M"\n')
    with pytest.raises(PresetError, match=r"needs about \d+ MiB of memory and limits.toml gives to runs 95 MiB"):
        idle_sim.launch(spec=spec())
    assert idle_sim.snapshot().runs == ()


def gpu_of(lab: RunsRoot, view: RunView) -> tuple[int | None, str]:
    """The number of the GPU that was chosen, and all that the trainer sees."""
    order = read_launch(lab.dir(view.id).attempt(view.attempt).launch)
    assert order is not None
    return view.placed.number if view.placed else None, order.env.get("CUDA_VISIBLE_DEVICES", "-")


@pytest.mark.slow
@needs_gcc
def test_runs_are_spread_over_the_gpus(idle_lab: Lab, machine: Machine) -> None:
    """By what is free and promised; what does not fit waits; by hand is respected; the journal says which and why."""
    machine.has(IDLE)
    idle_lab.start(**machine.environ)
    until(lambda: len(idle_lab.snapshot().gpus) == 2, 20)
    roomy, second, by_hand = (
        idle_lab.launch(spec=spec(device), STUB_UPDATE_S=SLOW)[0] for device in ("cuda", "auto", "cuda:1")
    )
    assert gpu_of(idle_lab, idle_lab.view(roomy)) == (1, "GPU-b")
    assert gpu_of(idle_lab, idle_lab.view(second)) == (0, "GPU-a")
    assert gpu_of(idle_lab, idle_lab.view(by_hand)) == (None, "-")
    (start,) = (it for it in read_all(idle_lab.dir(roomy).events, FleetEvent)[0] if isinstance(it, AttemptStarting))
    assert start.placed is not None
    assert start.placed.why.startswith("of 2 GPUs the calmest with room: 0 % busy, 0 runs on it, 8.0 GiB free")
    machine.has(IDLE.replace(f"0 {GIB} ", f"0 {8 * GIB} ").replace("0 0 ", f"0 {8 * GIB} "))
    until(lambda: all(gpu.memory_used == 8 * GIB for gpu in idle_lab.snapshot().gpus), 20)
    (waiting,) = idle_lab.launch(spec=spec("cuda"), STUB_UPDATE_S=SLOW)
    cause = idle_lab.view(waiting).cause or ""
    assert "run.device = 'cpu' needs none" in cause
    names = {idle_lab.view(run).name for run in (roomy, second, by_hand)}
    assert set(cause.partition("(yours: ")[2].partition(")")[0].split(", ")) == names
    machine.has(IDLE)
    idle_lab.wait(waiting, lambda view: view.placed)


@pytest.mark.slow
@needs_gcc
def test_the_next_attempt_is_placed_anew(idle_lab: Lab, machine: Machine) -> None:
    """The GPU of the first attempt is busy by then: the second one gets the other, from what the shell had said."""
    machine.has(IDLE)
    idle_lab.start(**machine.environ)
    until(lambda: len(idle_lab.snapshot().gpus) == 2, 20)
    (run,) = idle_lab.launch(spec=spec("cuda"), CUDA_VISIBLE_DEVICES="0,1")
    idle_lab.running(run)
    assert gpu_of(idle_lab, idle_lab.view(run)) == (1, "GPU-b")
    idle_lab.act("stop", run)
    idle_lab.ended(run)
    machine.has(IDLE.replace("GPU-b 0", "GPU-b 100"))
    until(lambda: (idle_lab.snapshot().gpus[1].util.mean or 0.0) > 30.0, 30)
    assert isinstance(idle_lab.ask(lambda id_: Resume(id=id_, run=run)), Accepted)
    assert gpu_of(idle_lab, idle_lab.view(run)) == (0, "GPU-a")


def test_a_run_follows_others_however_they_end(sim: SimulatedLab) -> None:
    """It waits until both have ended, also over a restart of the supervisor; the journal says how they did."""
    first, second = sim.launch(spec=spec(), name="first") + sim.launch(spec=spec(), name="second")
    item = LaunchItem(spec=spec(), name="third", after=("first", second))
    environ = {"PATH": sim.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
    reply = sim.ask(
        lambda id_: Launch(id=id_, items=(item,), cwd=str(sim.root), python=sys.executable, environ=environ)
    )
    assert isinstance(reply, Launched)
    third = reply.runs[0].id
    assert sim.view(third).cause == "waits until first has ended"
    sim.act("kill", first)
    sim.wait(third, lambda view: view.cause == "waits until second has ended")
    sim.kill_supervisor()
    sim.start()
    sim.wait(third, lambda view: view.cause == "waits until second has ended")
    sim.act("stop", second)
    sim.running(third)
    (start,) = (it for it in read_all(sim.dir(third).events, FleetEvent)[0] if isinstance(it, AttemptStarting))
    assert start.after == ("first killed", "second stopped")


def test_a_run_in_line_is_moved(idle_sim: SimulatedLab, limits: Path) -> None:
    """By the setting that it is launched with; one that trains has no place in a line."""
    limits.write_text("runs = 1\n")
    (first,) = idle_sim.launch(spec=spec(), name="first")
    idle_sim.launch(spec=spec(), name="second")
    (third,) = idle_sim.launch(spec=spec(), name="third")
    moved = idle_sim.ask(lambda id_: Set(id=id_, run=third, assignments=("keep.limits.priority=3",)))
    assert isinstance(moved, Accepted)
    assert moved.notes == ("third waits with priority 3",)
    with pytest.raises(UsageError, match="first is not queued"):
        idle_sim.ask(lambda id_: Set(id=id_, run=first, assignments=("keep.limits.priority=3",)))
    with pytest.raises(PresetError, match="1000"):
        idle_sim.ask(lambda id_: Set(id=id_, run=third, assignments=("keep.limits.priority=3000",)))
    idle_sim.kill_supervisor()
    idle_sim.start(XDG_CONFIG_HOME=str(limits.parents[1]))
    idle_sim.act("kill", first)
    idle_sim.wait(third, lambda view: view.attempt)
    assert begun(idle_sim) == ["first", "third"]


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get("MISSION_TUI_PRELOAD") == "always", reason="a forked stub has torch's memory too")
def test_what_was_seen_of_a_run_is_believed_of_the_next(idle_lab: Lab, tmp_path: Path) -> None:
    """The stub takes far less than the arithmetic says: once that was seen, one like it fits, and later too."""
    limits = limits_of(idle_lab, tmp_path)
    limits.write_text('ram = "200M"\n')
    with pytest.raises(PresetError, match=r"needs about \d+ MiB of memory and limits.toml gives to runs 190 MiB"):
        idle_lab.launch(spec=spec())
    limits.unlink()
    (run,) = idle_lab.launch(spec=spec(total_timesteps=64 * 3))
    idle_lab.ended(run)
    (over,) = (it for it in read_all(idle_lab.dir(run).events, FleetEvent)[0] if isinstance(it, AttemptEnded))
    assert over.peak is not None
    assert 10 << 20 < over.peak.rss_bytes < 180 << 20
    limits.write_text('ram = "200M"\n')
    idle_lab.kill_supervisor()
    idle_lab.start(XDG_CONFIG_HOME=str(limits.parents[1]))
    (again,) = idle_lab.launch(spec=spec())
    idle_lab.running(again)


def test_a_run_whose_spec_was_lost_in_line_does_not_wait_for_ever(idle_sim: SimulatedLab, limits: Path) -> None:
    """What it would take is not known, so nothing holds it; it ends with the reason."""
    limits.write_text("runs = 1\n")
    idle_sim.launch(spec=spec())
    (second,) = idle_sim.launch(spec=spec())
    idle_sim.kill_supervisor()
    idle_sim.dir(second).spec.write_text("no [ spec")
    idle_sim.start(XDG_CONFIG_HOME=str(limits.parents[1]))
    assert idle_sim.ended(second).outcome == "failed"
