"""The files of the instruments: what is written comes back, damage costs its lines, and they stay bounded."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from mission_tui.fleet.strip import Cell, Span
from mission_tui.records.meter_history import TIERS, CellsRecord, MeterFiles, SpansRecord

FINE, MIDDLE, COARSE = TIERS
T = 1_795_257_600.0


def a_cell(t: float) -> Cell:
    """A look at 40 percent."""
    return Cell(t, 0.0, 40.0, 100.0, 0.25, 5)


def write(files: MeterFiles, t: float, tier: int = 0) -> None:
    """One writing: a cell of a GPU and a span of a run."""
    cells = partial(CellsRecord, track="busy", gpu="GPU-a", name="Stand-in", cells=(a_cell(t),))
    files.append(TIERS[tier], t, [cells, partial(SpansRecord, run="r", spans=(Span("update", t, t + 1.0),))])


def test_what_is_written_comes_back_across_files_and_writers(tmp_path: Path) -> None:
    """Two writers, the first over more than one file; numbers begin anew in each file."""
    first = MeterFiles(tmp_path)
    for t in (T, T + 10.0, T + 400.0):
        write(first, t)
    write(MeterFiles(tmp_path), T + 500.0)
    kept, damage = MeterFiles(tmp_path).read(FINE, T + 600.0)
    assert damage == []
    assert [part.seq for part in kept] == [1, 2, 3, 4, 1, 2, 1, 2]
    assert [part.cells[0].t for part in kept if isinstance(part, CellsRecord)] == [T, T + 10.0, T + 400.0, T + 500.0]
    assert kept[1] == SpansRecord(2, "r", (Span("update", T, T + 1.0),))
    assert MeterFiles(tmp_path).read(MIDDLE, T + 600.0) == ([], [])


def test_damage_costs_only_the_lines_that_it_hit(tmp_path: Path) -> None:
    """A flipped byte and a torn end: the other lines come back, and both are said."""
    files = MeterFiles(tmp_path)
    for t in (T, T + 10.0, T + 20.0):
        write(files, t)
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    content[20] ^= 1
    path.write_bytes(content[:-9])
    kept, damage = files.read(FINE, T + 30.0)
    assert [part.seq for part in kept] == [2, 3, 4, 5]
    assert len(damage) == 1
    assert "it was skipped" in damage[0]


def test_old_files_go_and_all_of_them_stay_below_the_most(tmp_path: Path) -> None:
    """A file goes when the last of its time is too old; beyond the most bytes the oldest go, whatever they hold."""
    files = MeterFiles(tmp_path)
    for hour in range(30):
        for tier in range(3):
            write(files, T + 3_600.0 * hour, tier)
    now = T + 3_600.0 * 29
    files.prune(now)
    begun = {tier.name: [p for p in tmp_path.iterdir() if p.name.startswith(tier.name)] for tier in TIERS}
    assert [len(begun[tier.name]) for tier in TIERS] == [1, 3, 7]
    assert files.read(COARSE, now)[0][0].seq == 1
    files.prune(now, most_bytes=1_000)
    assert 0 < sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1_000
    assert files.read(FINE, now)[0]


def test_what_others_lay_there_is_left_alone(tmp_path: Path) -> None:
    """A name that no writer gives is neither read nor removed; without a folder there is nothing."""
    (tmp_path / "fine-notes.jsonl").write_text("mine", encoding="ascii")
    files = MeterFiles(tmp_path)
    files.prune(T)
    assert files.read(FINE, T) == ([], [])
    assert (tmp_path / "fine-notes.jsonl").exists()
    assert MeterFiles(tmp_path / "nowhere").read(FINE, T) == ([], [])
