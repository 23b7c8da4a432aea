"""A quote: what a launch would cost and be told, from the supervisor that would carry it out; nothing is made."""

from __future__ import annotations

import sys
from pathlib import Path

from msgspec import structs

from mission_tui.fleet.specs.spec import KeepSpec, LaunchItem, LimitsKeep, RunSpec, Spec
from mission_tui.ipc.client import Connection
from mission_tui.ipc.replies import Quoted
from mission_tui.ipc.requests import Quote
from tests.faults.simulated import NoGpu
from tests.nvml import GIB, Machine, needs_gcc
from tests.supervisor.conftest import REPOSITORY, Lab, RunsRoot, stub_spec
from tests.supervisor.simulated_lab import SimulatedLab
from tests.waiting import until


def quoted(lab: RunsRoot, *items: LaunchItem) -> Quoted:
    environ = {"PATH": lab.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
    reply = lab.ask(lambda id_: Quote(id=id_, items=items, cwd=str(lab.root), python=sys.executable, environ=environ))
    assert isinstance(reply, Quoted)
    return reply


def on_cpu(spec: Spec | None = None) -> Spec:
    spec = spec or stub_spec()
    return structs.replace(spec, run=structs.replace(spec.run, device="cpu"))


def test_a_quote_foretells_from_what_was_seen_here(lab: Lab) -> None:
    """At first memory is an estimate and no speed is known; then both are those of the run that was, by its name."""
    spec = on_cpu(stub_spec(total_timesteps=64 * 4))
    (before,) = quoted(lab, LaunchItem(spec=spec)).costs
    assert (before.pace, before.ram_seen, before.vram_bytes, before.waits) == (None, False, None, "")
    assert before.ram_bytes > 0
    (run,) = lab.launch(spec=spec, name="seen")
    lab.ended(run)
    (after,) = quoted(lab, LaunchItem(spec=spec)).costs
    assert after.pace is not None
    assert (after.pace.name, after.pace.differs, after.ram_seen) == ("seen", (), True)
    assert after.pace.steps_per_s > 0
    assert after.pace.start_s is not None
    assert 0 <= after.pace.start_s < 60
    other = structs.replace(spec, ppo=structs.replace(spec.ppo, n_steps=32))
    (differing,) = quoted(lab, LaunchItem(spec=other)).costs
    assert differing.pace is not None
    assert differing.pace.differs == ("ppo.n_steps 16",)
    assert [view.id for view in lab.snapshot().runs] == [run]


def test_scripts_that_start_a_thread_for_every_core_are_warned_of(lab: Lab) -> None:
    """In the words of a launch, so also on the form of the screen, which asks the same; also without a supervisor."""
    script = Spec(preset="command", run=RunSpec(command=(sys.executable, "train.py")))
    items = (LaunchItem(spec=script), LaunchItem(spec=script))
    (lab.root / "train.py").touch()
    (said,) = quoted(lab, *items).warnings
    assert "torch and NumPy start" in said
    assert "--set run.threads=1" in said
    one = structs.replace(script, run=structs.replace(script.run, threads=1))
    assert quoted(lab, LaunchItem(spec=one), LaunchItem(spec=one)).warnings == ()
    lab.kill_supervisor()
    with Connection.connect_readonly(lab.root) as files:
        alone = files.ask(lambda id_: Quote(id=id_, items=items, cwd=str(lab.root), python=sys.executable, environ={}))
    assert any("torch and NumPy start" in warning for warning in alone.warnings)


def test_files_alone_foretell_the_same(lab: Lab) -> None:
    """Without a supervisor: memory as seen, the pace and what a launch would warn of, and nothing of who would begin;
    nothing is written.
    """
    spec = on_cpu(stub_spec(total_timesteps=64 * 4))
    spec = structs.replace(spec, ppo=structs.replace(spec.ppo, ent_coef=2.0))
    (run,) = lab.launch(spec=spec, name="seen")
    lab.ended(run)
    item = LaunchItem(spec=spec)
    told = quoted(lab, item)
    lab.kill_supervisor()
    with Connection.connect_readonly(lab.root) as files:
        seen = files.ask(lambda id_: Quote(id=id_, items=(item,), cwd="/", python=sys.executable, environ={}))
    assert (told.decided, seen.decided) == (True, False)
    assert seen.costs == told.costs
    assert seen.costs[0].ram_seen
    (outweighs,) = seen.warnings
    assert "ppo.ent_coef = 2 outweighs the policy loss" in outweighs
    assert outweighs in told.warnings
    assert seen.costs[0].pace is not None


def test_what_trained_on_another_machine_foretells_nothing(sim: SimulatedLab) -> None:
    """A runs root on a shared disk holds runs of other machines, whose speed is not this one's."""
    spec = on_cpu(stub_spec(total_timesteps=64 * 2))
    (run,) = sim.launch(spec=spec)
    sim.ended(run)
    sim.dir(run).attempt(1).effective.write_text('[host]\nname = "elsewhere"\n')
    assert quoted(sim, LaunchItem(spec=spec)).costs[0].pace is None


def test_a_quote_says_who_would_wait_and_for_what(idle_sim: SimulatedLab, tmp_path: Path) -> None:
    """The queue's own answer for all at once, and the run that has to end first."""
    limits = tmp_path / "config" / "mission-tui" / "limits.toml"
    limits.parent.mkdir(parents=True)
    limits.write_text("runs = 2\n")
    idle_sim.start(XDG_CONFIG_HOME=str(tmp_path / "config"))
    item = LaunchItem(spec=on_cpu())
    waits = [cost.waits for cost in quoted(idle_sim, item, item, item).costs]
    assert waits[:2] == ["", ""]
    assert waits[2] == "waits for another run's end: limits.toml allows 2 at once, and as many are live"
    idle_sim.launch(spec=on_cpu(), name="first")
    follower = structs.replace(item, after=("first",))
    assert quoted(idle_sim, follower).costs[0].waits == "waits until first has ended"


def test_a_quote_of_a_group_has_as_many_begin_as_its_launch(idle_sim: SimulatedLab) -> None:
    """Those that find free cores, the first however busy they are; or as many as `-j` says."""
    idle_sim.start()
    cores = idle_sim.snapshot().host.cores
    wide = on_cpu(structs.replace(stub_spec(), run=structs.replace(stub_spec().run, threads=cores)))
    items = [LaunchItem(spec=wide, group="lr-ab12") for _ in range(3)]
    waits = [cost.waits for cost in quoted(idle_sim, *items).costs]
    assert waits[0] == ""
    busy = f"waits for {cores} cores, so that all run at full speed: the others keep {cores} of {cores} busy"
    assert waits[1:] == [busy] * 2
    two = structs.replace(wide, keep=KeepSpec(limits=LimitsKeep(group_runs=2)))
    waits = [cost.waits for cost in quoted(idle_sim, *(structs.replace(item, spec=two) for item in items)).costs]
    assert waits == ["", "", "waits for its group: keep.limits.group_runs (launch -j) allows 2 of it at once"]
    alone = [cost.waits for cost in quoted(idle_sim, *(structs.replace(item, group=None) for item in items)).costs]
    assert alone == ["", "", ""]


def test_what_a_launch_would_refuse_is_said(sim: SimulatedLab) -> None:
    """A taken name, a run to follow that is not there, memory that there never is: the launch's sentence, and costs."""
    sim.launch(spec=on_cpu(), name="taken")
    said = quoted(sim, LaunchItem(spec=on_cpu(), name="taken"))
    assert said.refused.startswith("the name 'taken' is taken by a live run")
    assert len(said.costs) == 1
    assert "nobody" in quoted(sim, LaunchItem(spec=on_cpu(), after=("nobody",))).refused
    huge = structs.replace(stub_spec(), ppo=structs.replace(stub_spec().ppo, n_steps=10**8))
    assert "of memory" in quoted(sim, LaunchItem(spec=huge)).refused
    never = KeepSpec(limits=LimitsKeep(cores_free=4096))
    assert "cores_free asks for 4096" in quoted(sim, LaunchItem(spec=structs.replace(on_cpu(), keep=never))).refused


@needs_gcc
def test_on_a_gpu_its_memory_is_part_of_the_price(idle_lab: Lab, machine: Machine) -> None:
    """The GPU that it would begin on, and what it would take of it; with run.device = 'cpu' none."""
    machine.has(f"gpu GPU-a 0 {7 * GIB} {8 * GIB} 1 1\ngpu GPU-b 0 {GIB} {8 * GIB} 1 1\n")
    idle_lab.start(**machine.environ)
    until(lambda: len(idle_lab.snapshot().gpus) == 2, 20)
    (cost,) = quoted(idle_lab, LaunchItem(spec=stub_spec())).costs
    assert cost.gpu == 1
    assert cost.vram_bytes is not None
    assert cost.vram_bytes > 0
    assert quoted(idle_lab, LaunchItem(spec=on_cpu())).costs[0].vram_bytes is None


def test_a_command_costs_its_keeper_until_it_was_seen(sim: SimulatedLab) -> None:
    """Nothing is known of a command but that its program is not there."""
    spec = Spec(
        preset="command", run=structs.replace(stub_spec().run, total_timesteps=None, command=("no-such-program",))
    )
    said = quoted(sim, LaunchItem(spec=spec))
    assert "there is no program 'no-such-program'" in said.refused
    assert said.costs[0].pace is None


class SilentGpus(NoGpu):
    """A driver that has said nothing yet."""

    note = ""

    def present(self) -> bool:
        return True


def test_gpu_memory_is_estimated_before_the_driver_has_said_a_word(sim: SimulatedLab) -> None:
    """None would be said of a run that uses no GPU."""
    sim.core.machine.gpu = SilentGpus()  # type: ignore[assignment]
    spec = structs.replace(stub_spec(), run=structs.replace(stub_spec().run, device="cuda"))
    (cost,) = quoted(sim, LaunchItem(spec=spec)).costs
    assert cost.waits == "waits for the first word about the GPUs"
    assert cost.vram_bytes is not None
    (cost,) = quoted(sim, LaunchItem(spec=on_cpu())).costs
    assert (cost.waits, cost.vram_bytes) == ("", None)
