"""What the instruments showed survives the supervisor, by the files that it writes as it goes."""

from __future__ import annotations

import errno
import time
from pathlib import Path

import pytest
from msgspec import structs

from mission_tui.fleet.strip import METER_LEVELS, SLOW_LEVELS, Cell, CellHistory, Span, Strip
from mission_tui.ipc.requests import GetStrip
from mission_tui.records.atomic import StorageError
from mission_tui.records.meter_history import CellsRecord, Kept, MeterFiles, SpansRecord, restore_histories
from mission_tui.records.runs.layout import instruments_dir
from mission_tui.supervisor.launchers.local import LocalLauncher
from mission_tui.supervisor.readonly.history import strip_of
from mission_tui.supervisor.readonly.meters import ReadonlyMeters
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.watching.meter_history import Instruments
from tests.nvml import Machine, needs_gcc
from tests.supervisor.conftest import Lab
from tests.supervisor.verbs.test_strip import strip_shown
from tests.waiting import until

MINUTES = 30


@pytest.fixture
async def core(tmp_path: Path) -> Core:
    """One that has seen half an hour of a GPU and the processors, without a beat."""
    return seen(another(tmp_path))


def another(folder: Path) -> Core:
    """A supervisor's core of the same runs root."""
    (folder / "runs" / ".supervisor").mkdir(parents=True, exist_ok=True)
    return Core(folder / "runs", {"local": LocalLauncher()})


def seen(core: Core) -> Core:
    """A burst of 100 % a minute, 5 % between; the processors as their minute."""
    now = time.monotonic() // 60 * 60
    busy, power, core.machine.host.cpu = CellHistory(), CellHistory(SLOW_LEVELS), CellHistory(SLOW_LEVELS)
    for quarter in range(MINUTES * 240):
        t = now - MINUTES * 60 + quarter / 4
        value = 100.0 if quarter % 240 == 7 else 5.0
        busy.add(Cell(t, 0.0, value, value, 0.25, 5))
        if quarter % 4 == 0:
            power.add(Cell(t, 70.0, 71.0, 72.0, 1.0))
            core.machine.host.cpu.add(Cell(t, 0.0, float(quarter // 240), 100.0, 1.0))
    core.machine.host.meters["ram"] = core.machine.gpu.meters["vram", "GPU-a"] = memory = CellHistory(METER_LEVELS)
    memory.total = 8e9
    for second in range(MINUTES * 60):
        memory.add_constant(1e6 * second, now - MINUTES * 60 + second, 1.0)
    gpu = core.machine.gpu
    gpu.busy["GPU-a"], gpu.power["GPU-a"], gpu.names["GPU-a"] = busy, power, "Stand-in"
    return core


def histories(core: Core) -> list[CellHistory]:
    meters = [core.machine.host.meters["ram"], core.machine.gpu.meters["vram", "GPU-a"]]
    return [core.machine.gpu.busy["GPU-a"], core.machine.gpu.power["GPU-a"], core.machine.host.cpu, *meters]


async def test_the_next_supervisor_shows_what_the_last_one_saw(core: Core, tmp_path: Path) -> None:
    """Cells of every age, to the peak, though the last one never closed its files; and what is seen since goes on."""
    await writing(core)
    then, now = another(tmp_path), time.monotonic()
    then.machine.gpu.busy["GPU-a"] = CellHistory()
    then.machine.gpu.busy["GPU-a"].add(Cell(now, 77.0, 77.0, 77.0, 0.25))
    await Instruments(then, then.machine).load()
    assert then.machine.gpu.names == {"GPU-a": "Stand-in"}
    assert then.machine.gpu.meters["vram", "GPU-a"].total == 8e9
    end = core.machine.host.cpu.complete(0, 0.0)[-1].t // 10 * 10 - 10
    for seconds in (50, 590, MINUTES * 60):
        for before, after in zip(histories(core), histories(then), strict=True):
            old, new = (history.between(end - seconds, end, 60) for history in (before, after))
            assert len(old) == len(new) > 0
            for was, is_ in zip(old, new, strict=True):
                assert structs.astuple(is_) == pytest.approx(structs.astuple(was), abs=0.01)
    assert then.machine.gpu.busy["GPU-a"].between(now - 1, now + 1, 10)[-1].most == 77.0


async def test_nothing_is_written_twice(core: Core, tmp_path: Path) -> None:
    """Read back and written again by the next one, the files hold every cell once."""
    await writing(core)
    again = another(tmp_path)
    instruments = Instruments(again, again.machine)
    await instruments.load()
    instruments.close()
    last = another(tmp_path)
    await Instruments(last, last.machine).load()
    looks = [
        sum(cell.looks for cell in each.machine.gpu.busy["GPU-a"].between(0.0, 1e12, 10**6)) for each in (core, last)
    ]
    assert 0 <= looks[0] - looks[1] <= 5  # the open cell


async def test_a_full_disk_is_not_written_to(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the reserve is given up nothing is written; where the disk refuses all the same, the supervisor goes on."""
    instruments = Instruments(core, core.machine)
    await instruments.load()
    core.reserve.release()
    monkeypatch.setattr(core.reserve, "size_bytes", 1 << 62)
    await instruments.write(time.time())
    assert not instruments_dir(core.root).exists()
    monkeypatch.setattr(core.reserve, "size_bytes", 0)
    core.reserve.path.touch()

    def refuse(*_: object) -> None:
        raise StorageError("cannot append: No space left on device", errno.ENOSPC)

    with monkeypatch.context() as full:
        full.setattr(MeterFiles, "append", refuse)
        await instruments.write(time.time())
    core.machine.gpu.busy["GPU-a"].add(Cell(time.monotonic() + 5.0, 9.0, 9.0, 9.0, 0.25))
    instruments.close()
    assert list(instruments_dir(core.root).iterdir())


def test_what_was_never_true_is_passed_over() -> None:
    """Cells and spans of the future, of no time, twice or across each other, as after a clock was set, harm nothing."""
    now = 1_795_257_600.0
    cells = tuple(Cell(t, 0.0, 5.0, 9.0, seconds, 1) for t, seconds in ((now - 9, 1.0), (now + 9, 1.0), (now - 9, 1.0)))
    absurd = (
        Cell(-1e300, 0.0, 5.0, 9.0, 1.0, 1),
        Cell(now - 5, 0.0, 5.0, 9.0, 0.0, 1),
        Cell(now - 5, 0.0, 5.0, 9.0, 1.0, 0),
    )
    spans = (Span("update", now - 8, now - 4), Span("rollout", now - 9, now - 6), Span("saving", now - 3, now + 5))
    parts: list[Kept] = [
        CellsRecord(1, "busy", "GPU-a", "G", cells + absurd),
        CellsRecord(2, "what", "", "", cells),
        SpansRecord(3, "r", spans),
    ]
    found = restore_histories([parts, [], parts], now, 1_000.0)
    assert [cell.t for cell in found.cells["busy", "GPU-a"].finest(0.0, 1e12)] == [now - 1_009]
    assert list(found.spans["r"].between(0.0, 1e12)) == [
        Span("rollout", now - 9, now - 6),
        Span("update", now - 6, now - 4),
    ]


@pytest.mark.slow
@needs_gcc
def test_a_supervisor_that_left_hands_its_strip_to_the_next(idle_lab: Lab, machine: Machine) -> None:
    """GPU, processors and the phases of a run that ended meanwhile, as a client sees them."""
    idle_lab.start(**machine.environ)
    (run,) = idle_lab.launch(STUB_PHASES="0.3,0.2")
    idle_lab.running(run, 3)
    idle_lab.act("stop", run)
    idle_lab.ended(run)
    before = until(lambda: (made := strip_shown(idle_lab)).gpus and len(made.gpus[0].busy) > 8 and made, 30)
    assert isinstance(before, Strip)
    assert idle_lab.supervisor is not None
    idle_lab.supervisor.terminate()
    idle_lab.supervisor.wait()
    idle_lab.start()

    def back() -> Strip | None:
        strip = strip_shown(idle_lab, 120.0)
        return strip if strip.lanes and strip.gpus else None

    after = until(back, 20)
    assert isinstance(after, Strip)
    assert [(lane.run, [span.phase for span in lane.spans]) for lane in after.lanes] == [
        (lane.run, [span.phase for span in lane.spans]) for lane in before.lanes
    ]
    (gpu,) = after.gpus
    assert (gpu.uuid, {round(cell.mean) for cell in gpu.busy}) == ("GPU-a", {40})
    assert sum(cell.looks for cell in gpu.busy) > 0.8 * sum(cell.looks for cell in before.gpus[0].busy)


async def test_an_onlooker_sees_the_strip_from_the_files(core: Core) -> None:
    """What a supervisor wrote, on unix time, for somebody who asks no supervisor; it writes nothing itself."""
    await writing(core)
    files = sorted(instruments_dir(core.root).iterdir())
    tracks = ReadonlyMeters(core.root).tracks()
    asked = GetStrip(id=1, seconds=600.0, most=240)
    shown = strip_of(tracks, core.store, asked, time.time())
    (gpu,) = shown.gpus
    assert (gpu.uuid, gpu.name, max(cell.most for cell in gpu.busy)) == ("GPU-a", "Stand-in", 100.0)
    assert shown.since - 5.0 < gpu.busy[0].t < shown.since + 15.0
    assert {cell.most for cell in gpu.power} == {72.0}
    assert shown.cpu
    assert sorted(instruments_dir(core.root).iterdir()) == files


async def writing(core: Core) -> None:
    """All tiers, once."""
    instruments = Instruments(core, core.machine)
    await instruments.load()
    await instruments.write(time.time())


def test_cells_on_unix_time_stay_apart() -> None:
    """The numbers are large there, and a quarter of a second is little of them."""
    now = 1_795_257_600.0
    cells = tuple(Cell(now - 10 + at / 4, 0.0, 5.0, 9.0, 0.25, 5) for at in range(40))
    found = restore_histories([[CellsRecord(1, "busy", "GPU-a", "G", cells)], [], []], now, 0.0)
    assert [cell.t for cell in found.cells["busy", "GPU-a"].finest(0.0, 1e12)] == [cell.t for cell in cells]
