"""What `top` prints: GPUs, runs by how busy they are, and what is not ours."""

from __future__ import annotations

import csv
import time
from pathlib import Path

import pytest
from msgspec import structs

from mission_tui.cli.session import Session
from mission_tui.cli.tables.top import (
    cores_line,
    duty_lines,
    gpu_table,
    host_line,
    others_line,
    others_table,
    share_table,
    usage_table,
    write_series,
)
from mission_tui.errors import UsageError
from mission_tui.fleet.events.processes import Usage
from mission_tui.fleet.views.snapshot import FleetSnapshot, GpuMeters, OtherProgram, RunView, Utilisation
from mission_tui.present.machines import Attribution, GpuDuty, RunShare, share_of
from tests.shell import Shell
from tests.tui.fleets import a_fleet, a_run, host
from tests.waiting import until

GIB = 1 << 30
GPU = GpuMeters("GPU-a", "Stand-in", Utilisation(5.0, 18.0, 97.0), 6 * GIB, 8 * GIB, 71.5, 61.0, 1560, ("power cap",))


def fleet(*views: RunView, gpus: tuple[GpuMeters, ...] = (GPU,), cpu_percent: float | None = 75.0) -> FleetSnapshot:
    """A snapshot of four cores."""
    return structs.replace(a_fleet(views, gpus=gpus), host=host(cores=4, cpu_percent=cpu_percent))


def using(name: str, cpu_percent: float, vram: int | None = None) -> RunView:
    """A run whose processes take so much."""
    usage = Usage(
        cpu_percent, 2 * GIB, 7, 3, vram, pss_bytes=GIB, written_bytes=5 * GIB, open_files=41, gpu_percent=31.0
    )
    return a_run(name, usage=usage)


def test_the_busiest_run_comes_first_and_one_without_processes_not_at_all() -> None:
    """A row per run with what it takes; an ended run is none."""
    rows = usage_table((using("calm", 12.0), a_run("over", usage=None), using("busy", 190.0, 3 * GIB))).rows
    assert [row[1] for row in rows] == ["busy", "calm"]
    assert rows[0][3:12] == ("190%", "2.0G", "1.0G", "3.0G", "31%", "5.0G", "41", "7", "3")
    assert rows[1][6] == "-"


def test_eighty_columns_take_the_brief_table() -> None:
    """A name of 20 characters, and no line is longer than the terminal."""
    table = usage_table((using("x" * 20, 3200.0, 100 * GIB),), brief=True)
    assert max(map(len, table.plain().splitlines())) <= 72


def test_a_gpu_shows_its_peak_beside_its_mean() -> None:
    """Busy 18 % with bursts of 97 %; and why its clock is held down."""
    (row,) = gpu_table(fleet()).rows
    assert row == ("0", "Stand-in", "18%", "97%", "6.0G/8.0G", "72W", "61C", "1560MHz", "power cap")


def test_what_is_not_ours_is_said() -> None:
    """Three cores are busy and the runs take two; 6 GiB are held and the runs hold 3."""
    words = others_line(fleet(using("a", 150.0, 3 * GIB), using("b", 50.0)))
    assert words == (
        "runs take 200% (100% is one core), everything else 100%; 3.0G of GPU memory is held by other programs"
    )


def test_meters_of_different_moments_never_say_less_than_nothing() -> None:
    """Runs that took more a moment ago than the machine does now leave zero to others; unknown stays unknown."""
    share = share_of(fleet(cpu_percent=10.0).host, (), (using("a", 300.0),))
    assert (share.cpu_others, share.vram_ours, share.vram_others) == (0.0, None, None)
    assert share_of(fleet(cpu_percent=None).host, (), ()).cpu_others is None


def test_without_a_gpu_the_host_line_says_so_calmly() -> None:
    """One sentence beside the processor, and no table."""
    assert host_line(host(gpu_note="no GPU: Driver Not Loaded")).endswith("no GPU: Driver Not Loaded")
    assert gpu_table(fleet(gpus=())).rows == []


def test_cores_are_listed_and_where_there_are_many_counted() -> None:
    """Two by their percents; of 64 how many are busy and how many idle; nothing where nobody knows."""
    assert cores_line(host(cpu_cores=(97.0, 3.0))) == "cores 97 3 %"
    many = host(cpu_cores=(95.0,) * 3 + (50.0,) * 51 + (2.0,) * 10)
    assert cores_line(many) == "cores: 3 of 64 busy (90% and more), 10 idle (less than 10%)"
    assert cores_line(host()) == ""


def test_other_programs_and_swap_are_shown_where_there_are_any() -> None:
    """Who it is, whose it is and what it takes; swap that nobody uses is not spoken of."""
    other = OtherProgram(4711, "python train.py", "bob", None, 3 * GIB, 2 * GIB)
    assert others_table(host(others=(other,))).rows == [("python train.py", "4711", "bob", "-", "3.0G", "2.0G")]
    assert "swap 1.0G of 4.0G" in host_line(host(swap_used=GIB, swap_total=4 * GIB))
    assert "swap" not in host_line(host(swap_used=0, swap_total=4 * GIB))


def test_the_last_minute_is_a_sentence_and_a_row_per_run() -> None:
    """What is not known is a dash; one GPU needs no name."""
    duty = GpuDuty(
        uuid="GPU-a", name="G", seconds=59.0, busy=18.2, peak=97.0, updating=16.0, in_updates=95.0, otherwise=3.0
    )
    share = RunShare(run="r-1", name="heavy", seconds=58.0, rollout=76.3, update=22.9, steps=84_720, joules=4_290.0)
    shown = Attribution(gpus=(duty,), runs=(share, structs.replace(share, steps=0, joules=None)))
    assert list(duty_lines(shown)) == [
        "last minute: GPU busy 18 % of the time, 95 % during updates, 3 % otherwise; updates took 16 % of it"
    ]
    known, unknown = share_table(shown).rows
    assert known == ("r-1", "heavy", "76%", "23%", "4.29kJ", "50.6kJ")
    assert unknown[4:] == ("-", "-")


def test_a_time_of_the_series_is_checked_by_name() -> None:
    """What is no time, and a width that cells do not have, are said with the nearest that is."""
    session = Session(Path("/nowhere"), Path("/"), {})
    with pytest.raises(UsageError, match="--every 3s is not available: the nearest interval is 2s"):
        write_series(session, 60.0, 3.0, watch=False)
    with pytest.raises(UsageError, match="at most 25000s"):
        write_series(session, 86_400.0, 0.25, watch=False)


@pytest.mark.slow
def test_the_series_of_a_run_is_csv(quick: Shell) -> None:
    """A line a second for the host and the run, whose phases take all of a whole second; times rise."""
    (run,) = quick.launch("tiny")
    quick.advancing(run)
    begun = time.time()

    def whole() -> list[dict[str, str]]:
        lines = quick.typed("top", "--csv", "--last", "20s").stdout.splitlines()
        assert lines[0].startswith("t,what,id,name,busy_min,busy_mean,busy_max,power_w,cpu_percent,starting,rollout")
        rows = list(csv.DictReader(lines))
        mine = [row for row in rows if row["id"] == run and float(row["t"]) > begun]
        return rows if len(mine) >= 2 else []

    rows = until(whole, 20)
    assert isinstance(rows, list)
    assert [row["t"] for row in rows] == sorted(row["t"] for row in rows)
    shares = [sum(float(row[phase]) for phase in ("rollout", "update")) for row in rows if row["id"] == run]
    assert max(shares) > 50.0
    assert any(row["what"] == "host" and 0.0 <= float(row["cpu_percent"]) <= 100.0 for row in rows)
    assert quick.typed("top", "--csv", "--json").returncode == 2


def test_the_state_is_the_word_of_the_screen() -> None:
    """A run that is asked to pause is `pausing` in every table, whatever its phase."""
    (row,) = usage_table((structs.replace(using("calm", 12.0), pausing=True),)).rows
    assert row[2] == "pausing"
