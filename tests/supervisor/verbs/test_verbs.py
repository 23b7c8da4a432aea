"""The other verbs over a real socket: launch and its refusals, undo, details, history, log, shutdown, watching."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from msgspec import structs

from mission_tui.cli.verbs.run_output import whole_lines
from mission_tui.errors import MissionError, PresetError, UsageError
from mission_tui.fleet.specs.spec import KeepSpec, LaunchItem, LimitsKeep, Spec
from mission_tui.ipc.client import Connection
from mission_tui.ipc.replies import DetailsReply, EndedReply, HistoryReply, Launched, LogReply, Quoted, SnapshotReply
from mission_tui.ipc.requests import (
    Evaluate,
    GetDetails,
    GetEnded,
    GetHistory,
    GetLog,
    Launch,
    Quote,
    Shutdown,
    Undo,
    Watch,
)
from mission_tui.records.runs.code_files import check_rules
from mission_tui.tui.state.run_data import LogTail
from tests.supervisor.conftest import REPOSITORY, Lab, RunsRoot, large_spec, living, stub_spec
from tests.supervisor.simulated_lab import SimulatedLab
from tests.waiting import until


def run_folders(lab: RunsRoot) -> list[str]:
    """Names of everything in the runs root that is not the supervisor's."""
    return sorted(path.name for path in lab.root.iterdir() if not path.name.startswith("."))


def env_spec(**changes: object) -> Spec:
    """The stub's spec with changes to its environment."""
    spec = stub_spec(64)
    return structs.replace(spec, env=structs.replace(spec.env, **changes))


def test_an_unknown_environment_is_refused_before_anything_is_made(lab: Lab) -> None:
    """Preflight names the nearest environment; exit code 78; no directory."""
    with pytest.raises(PresetError, match="CartPole"):
        lab.launch(spec=env_spec(id="CartPoole-v1"))
    assert run_folders(lab) == []


def test_a_machine_that_is_too_small_refuses_with_numbers(sim: SimulatedLab) -> None:
    """A rollout buffer beyond the memory: exit code 78 and how much is needed."""
    with pytest.raises(PresetError, match="MiB"):
        sim.launch(spec=env_spec(n_envs=200_000_000))
    assert run_folders(sim) == []


def warnings_of(lab: RunsRoot, count: int, update_s: str = "", **run: object) -> tuple[str, ...]:
    """What a launch of `count` runs is warned of; each of their updates takes `update_s`."""
    spec = stub_spec()
    item = LaunchItem(spec=structs.replace(spec, run=structs.replace(spec.run, **run)))
    environ = {"PATH": lab.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
    if update_s:
        environ["STUB_UPDATE_S"] = update_s
    reply = lab.ask(
        lambda id_: Launch(id=id_, items=(item,) * count, cwd=str(lab.root), python=sys.executable, environ=environ)
    )
    assert isinstance(reply, Launched)
    return reply.warnings


def test_runs_that_are_live_count_for_the_next(sim: SimulatedLab) -> None:
    """As many runs as cores start without a word; one more is told how many are live, and one that is paused is not."""
    cores = len(os.sched_getaffinity(0))
    assert not [word for word in warnings_of(sim, cores) if "cores and you have" in word]
    (warning,) = (word for word in warnings_of(sim, 1) if "cores and you have" in word)
    assert f"{cores + 1} runs, {cores} of them live or queued already" in warning
    for view in sim.snapshot().runs:
        sim.running(view.id)
        sim.act("pause", view.id)
        sim.wait(view.id, lambda v: v.state == "paused")
    assert not [word for word in warnings_of(sim, 1) if "cores and you have" in word]


def test_memory_that_live_runs_will_still_take_is_not_free(sim: SimulatedLab) -> None:
    """A run that wants most of the memory has taken none yet: a second one like it waits, or is refused."""
    large = large_spec()
    sim.launch(spec=large, STUB_UPDATE_S="600")
    (second,) = sim.launch(spec=large)
    assert re.match(r"waits for \d+\.\d GiB of memory: .* not reserved for other runs", sim.view(second).cause or "")
    at_once = structs.replace(large, keep=KeepSpec(limits=LimitsKeep(queue=False)))
    with pytest.raises(PresetError, match=r"stub waits behind .*; with keep.limits.queue = true it is queued"):
        sim.launch(spec=at_once)
    assert len(run_folders(sim)) == 2


def test_a_kill_is_heard_where_a_script_started_the_supervisor_in_its_background(idle_lab: Lab) -> None:
    """Shells have such programs ignore SIGQUIT; a keeper that has just been started hears it all the same."""
    before = signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    try:
        idle_lab.start()
    finally:
        signal.signal(signal.SIGQUIT, before)
    for _ in range(3):
        (run,) = idle_lab.launch()
        idle_lab.act("kill", run)
        assert idle_lab.ended(run, 10).outcome == "killed"


def test_a_name_means_one_live_run(sim: SimulatedLab) -> None:
    """A live run's name is taken; twice in one request is refused with nothing made; free again after the end."""
    (run,) = sim.launch(name="alpha")
    with pytest.raises(UsageError, match="taken"):
        sim.launch(name="alpha")
    with pytest.raises(UsageError, match="two runs of one launch"):
        sim.launch(2, name="beta")
    with pytest.raises(UsageError, match="cannot be used"):
        sim.launch(name="../beta")
    assert run_folders(sim) == [run]
    sim.act("kill", "alpha")
    sim.ended(run)
    (again,) = sim.launch(name="alpha")
    assert sim.view(again).name == "alpha"


def test_what_cannot_be_a_group_is_refused_by_the_supervisor_too(sim: SimulatedLab) -> None:
    """Whichever client sends it, also for a quote; nothing is made."""
    items = (LaunchItem(spec=stub_spec(), group="-other"),)
    who: dict[str, Any] = {"cwd": str(sim.root), "python": sys.executable, "environ": {"PATH": sim.environ["PATH"]}}
    with pytest.raises(UsageError, match="group name '-other' cannot be used"):
        sim.ask(lambda id_: Launch(id=id_, items=items, **who))
    quoted = sim.ask(lambda id_: Quote(id=id_, items=items, **who))
    assert isinstance(quoted, Quoted)
    assert "group name '-other' cannot be used" in quoted.refused
    assert run_folders(sim) == []


def test_a_launch_that_cannot_be_written_leaves_nothing(lab: Lab) -> None:
    """The disk refuses the second of two directories: neither is there, and the reason is a sentence."""
    assert lab.supervisor is not None
    resource.prlimit(lab.supervisor.pid, resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
    large = structs.replace(stub_spec(), description="x" * (1 << 17))
    items = (LaunchItem(spec=stub_spec()), LaunchItem(spec=large))
    with pytest.raises(MissionError, match="cannot write"):
        lab.ask(lambda id_: Launch(id=id_, items=items, cwd="/", python=sys.executable, environ={}))
    assert run_folders(lab) == []
    assert not list((lab.root / ".supervisor").glob("making-*"))
    assert lab.snapshot().runs == ()


def test_the_rules_of_a_mission_are_kept_with_the_run(sim: SimulatedLab) -> None:
    """MissionGym's four rule files are copied into the run's snapshot as they were at launch, with their digests."""
    (run,) = sim.launch(spec=env_spec(id="MissionGym-v0", config="demo"))
    kept = sorted(path.name for path in sim.dir(run).snapshot.iterdir())
    assert kept == ["SHA256SUMS", "rewards.toml", "rules.toml", "units.toml", "world.toml"]
    check_rules(sim.dir(run).snapshot)
    source = REPOSITORY / "mission_tui" / "envs" / "missions" / "demo" / "world.toml"
    assert (sim.dir(run).snapshot / "world.toml").read_bytes() == source.read_bytes()


def test_an_interpreter_that_does_not_exist_ends_the_run_with_a_cause(lab: Lab) -> None:
    """The keeper cannot start the trainer: failed(start), and the sentence names the program."""
    items = (LaunchItem(spec=stub_spec()),)
    reply = lab.ask(lambda id_: Launch(id=id_, items=items, cwd="/", python="/nowhere/python", environ={}))
    assert isinstance(reply, Launched)
    (view,) = reply.runs
    ended = lab.ended(view.id)
    assert (ended.outcome, ended.kind) == ("failed", "start")
    assert "/nowhere/python" in (ended.cause or "")


def test_undo_leaves_nothing(lab: Lab) -> None:
    """A run just launched is killed and its directory removed; its processes are gone; the other run is untouched."""
    other, run = lab.launch(STUB_WORKERS="1")[0], lab.launch(STUB_WORKERS="2")[0]
    lab.running(run)
    family = lab.family(run)
    lab.ask(lambda id_: Undo(id=id_, runs=(run,)))
    assert run_folders(lab) == [other]
    assert [view.id for view in lab.snapshot().runs] == [other]
    assert not living(family)
    assert not list((lab.root / ".supervisor").glob("*ing-*"))


def test_undo_in_the_same_moment_leaves_nothing_either(lab: Lab) -> None:
    """Undone before its keeper can have started anything: no directory, no process, within seconds."""
    for _ in range(5):
        lab.launch(STUB_WORKERS="1")
        lab.ask(lambda id_: Undo(id=id_, runs=("@last",)))
        assert run_folders(lab) == []
    until(lambda: not _of_runs(lab), 5, "only the supervisor is left, and its meters of a GPU")


def _of_runs(lab: Lab) -> list[psutil.Process]:
    supervisor = lab.supervisor
    assert supervisor is not None
    return [
        it
        for it in lab.processes()
        if it.pid != supervisor.pid and "mission_tui.supervisor.gpu" not in str(it.cmdline())
    ]


def test_undo_is_for_fresh_launches_only(sim: SimulatedLab) -> None:
    """A run that this supervisor did not launch just now is not undone."""
    (run,) = sim.launch()
    sim.running(run)
    sim.kill_supervisor()
    sim.start()
    with pytest.raises(UsageError, match="cannot undo"):
        sim.ask(lambda id_: Undo(id=id_, runs=(run,)))
    assert sim.view(run).state == "running"


def test_details_tell_attempts_and_checkpoints(sim: SimulatedLab) -> None:
    """Spec, attempts with outcome and start, checkpoints by name."""
    (run,) = sim.launch(spec=stub_spec(64 * 3))
    sim.ended(run)
    reply = sim.ask(lambda id_: GetDetails(id=id_, run=run))
    assert isinstance(reply, DetailsReply)
    assert reply.spec.preset == "stub"
    assert [(a.attempt, a.outcome, a.from_timesteps) for a in reply.attempts] == [(1, "finished", 0)]
    assert [(c.name, c.timesteps) for c in reply.checkpoints] == [("000000192", 192)]


def test_history_of_an_ended_run_is_read_from_its_file(sim: SimulatedLab) -> None:
    """A fresh supervisor serves all updates of a run that ended long ago."""
    (run,) = sim.launch(spec=stub_spec(64 * 100), STUB_UPDATE_S="0.001")
    sim.ended(run)
    sim.kill_supervisor()
    sim.start()
    series = ("rollout/ep_rew_mean", "unheard/of")
    reply = sim.ask(lambda id_: GetHistory(id=id_, run=run, series=series, points=2000))
    assert isinstance(reply, HistoryReply)
    assert reply.updates == tuple(range(1, 101))
    assert reply.low["rollout/ep_rew_mean"][9] == pytest.approx(1.0)
    assert set(reply.low["unheard/of"]) == {None}


def test_log_serves_stretches_and_disarms_them(sim: SimulatedLab) -> None:
    """The end without an offset, a stretch with one; escapes are gone, lines and indentation stay."""
    (run,) = sim.launch(spec=stub_spec(64))
    sim.ended(run)
    sim.dir(run).attempt(1).output.write_bytes("first\n    \x1b[31mred\x1b[0m é\nlast".encode())
    reply = sim.ask(lambda id_: GetLog(id=id_, run=run))
    assert isinstance(reply, LogReply)
    assert (reply.text, reply.start, reply.end, reply.size) == ("first\n    red é\nlast", 0, 30, 30)
    tail = sim.ask(lambda id_: GetLog(id=id_, run=run, limit=4))
    assert isinstance(tail, LogReply)
    assert (tail.text, tail.start) == ("last", 26)
    cut = sim.ask(lambda id_: GetLog(id=id_, run=run, offset=20, limit=4))
    assert isinstance(cut, LogReply)
    rest = sim.ask(lambda id_: GetLog(id=id_, run=run, offset=cut.end, limit=99))
    assert isinstance(rest, LogReply)
    assert "�" not in cut.text + rest.text
    with pytest.raises(UsageError, match="no attempt 5"):
        sim.ask(lambda id_: GetLog(id=id_, run=run, attempt=5))


@pytest.mark.parametrize("limit", [1000, 13, 11])
def test_log_of_a_progress_bar_is_its_last_state(sim: SimulatedLab, limit: int) -> None:
    """However many stretches a bar reaches over, `logs` and the screen have what a terminal would show."""
    (run,) = sim.launch(spec=stub_spec(64))
    sim.ended(run)
    sim.dir(run).attempt(1).output.write_bytes(
        b"windows\r\nfit\r 10% of all\r 50% of all\r100% of all\ndone\n 1%\r 2%\r"
    )
    tail, chunks, end = LogTail(run), [""], 0
    while not chunks or chunks[-1] or not end:
        reply = sim.ask(lambda id_, end=end: GetLog(id=id_, run=run, offset=end, limit=limit))  # type: ignore[misc]
        assert isinstance(reply, LogReply)
        tail.take(reply)
        chunks.append(reply.text)
        end = reply.end
    assert tail.lines == list(whole_lines(iter(chunks))) == ["windows", "100% of all", "done", " 2%"]


def test_a_line_that_does_not_end_is_known_as_it_stands() -> None:
    """`logs -f` on a terminal shows a progress bar while it moves, though no line of it ends for hours."""
    seen: list[str] = []
    chunks = ["begun\n 1%", "\r 2%\r", "", " 3% of all\r", "\ndone\n", " 9%"]
    assert list(whole_lines(iter(chunks), seen.append)) == ["begun", " 3% of all", "done", " 9%"]
    assert seen == [" 1%", " 2%", " 2%", " 3% of all", " 9%"]


def test_more_ended_runs_than_a_snapshot_holds_come_by_page(sim: SimulatedLab) -> None:
    """`ended` pages through ended runs, newest first."""
    runs = [sim.launch(spec=stub_spec(64))[0] for _ in range(3)]
    for run in runs:
        sim.ended(run)
    page = sim.ask(lambda id_: GetEnded(id=id_, offset=1, limit=1))
    assert isinstance(page, EndedReply)
    assert page.total == 3
    assert len(page.runs) == 1


def test_evaluating_without_a_checkpoint_is_refused(sim: SimulatedLab) -> None:
    """There is nothing to play with yet, and the sentence says what helps."""
    (run,) = sim.launch()
    sim.running(run)
    with pytest.raises(UsageError, match="checkpoint"):
        sim.ask(lambda id_: Evaluate(id=id_, run=run))


def test_a_health_finding_is_shown_and_journaled_once(sim: SimulatedLab) -> None:
    """Persistent KL far outside the trust region opens one finding, also across a restart of the supervisor."""
    (run,) = sim.launch(STUB_KL="0.5", STUB_UPDATE_S="0.01")
    view = sim.wait(run, lambda view: any(finding.rule == "kl-persistent" for finding in view.findings))
    sim.kill_supervisor()
    sim.start()
    sim.running(run, (view.update or 0) + 5)
    journal = sim.dir(run).events.read_text()
    opened = [f.id for f in sim.view(run).findings if f.rule == "kl-persistent"]
    assert len(opened) == 1
    assert journal.count(f'"{opened[0]}"') <= 2, "opened, and perhaps raised to critical"


def test_shutdown_with_runs_stops_them_first(sim: SimulatedLab) -> None:
    """Every run has saved and ended when the supervisor leaves."""
    runs = sim.launch(2)
    for run in runs:
        sim.running(run)
    sim.ask(lambda id_: Shutdown(id=id_, with_runs=True))
    assert sim.leaves
    sim.kill_supervisor()
    sim.start()
    assert {sim.view(run).outcome for run in runs} == {"stopped"}


@pytest.mark.slow
def test_watching_sends_at_most_four_snapshots_a_second(lab: Lab) -> None:
    """While four fast runs change all the time, a watcher gets each newer revision, and no more than four a second."""
    runs = lab.launch(4, STUB_UPDATE_S="0.005")
    for run in runs:
        lab.running(run)
    with Connection.connect(lab.root, start=False) as connection:
        arrivals: list[tuple[float, int]] = []
        for reply in connection.stream(lambda id_: Watch(id=id_)):
            assert isinstance(reply, SnapshotReply)
            arrivals.append((time.monotonic(), reply.snapshot.revision))
            if arrivals[-1][0] - arrivals[0][0] > 3.0:
                break
    revisions = [revision for _, revision in arrivals]
    assert revisions == sorted(set(revisions))
    assert 6 <= len(arrivals) <= 3.2 * 4 + 2


def is_removed(path: Path) -> bool:
    """Try once to remove the whole tree."""
    shutil.rmtree(path, ignore_errors=True)
    return not path.exists()


@pytest.mark.slow
def test_a_removed_run_directory_is_noticed_and_hurts_nobody(lab: Lab) -> None:
    """Somebody deletes a live run's directory: it is flagged damaged, the other run goes on, the supervisor answers."""
    doomed, other = lab.launch(2)
    lab.running(doomed)
    # The trainer writes meanwhile: a folder that was emptied may not be empty when it is to be removed.
    until(lambda: is_removed(lab.dir(doomed).path), 10)
    lab.wait(doomed, lambda view: "damaged" in view.flags)
    lab.running(other, (lab.view(other).update or 0) + 2)
    lab.act("kill", doomed)
    until(lambda: lab.view(doomed).state == "ended", 10)
    assert not Path(lab.dir(doomed).path, "spec.toml").exists()
