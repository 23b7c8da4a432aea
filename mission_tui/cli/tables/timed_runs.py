"""Results of `bench` and `tune` as tables, documents and bar charts: a row per repeat or candidate, the verdict, notes.

A chart as SVG needs nothing else, as PNG the extra `report`.
"""

from __future__ import annotations

import os
import statistics
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mission_tui.cli.terminal_output import Styled, Table, write
from mission_tui.errors import UsageError, install_words
from mission_tui.fleet.timed_runs import Side, incomparable, noise_of, pace_of, ratio_of
from mission_tui.present.numbers import DASH, count, duration, in_unit, measure, size
from mission_tui.records.atomic import write_atomic_group

if TYPE_CHECKING:
    from mission_tui.fleet.timed_runs import Ratio, Repeat, Side
    from mission_tui.fleet.tuning.sweep import SweepResult, SweepRow
    from mission_tui.fleet.tuning.tune_state import Row, TuneResult
    from mission_tui.ipc.replies import Benched, Progress, Tuned
    from mission_tui.tui.plot.picture_file import Surface

NOTED_ELSEWHERE_PERCENT = 10.0
MOST_NOTED = 8
LONG_UPDATES_SHARE = 0.1
BAR = 30


@dataclass(frozen=True, slots=True)
class BenchResult:
    """What was measured: the preset first, then what it was held against, if anything was."""

    sides: tuple[Side, ...]
    ratio: Ratio | None
    notes: tuple[str, ...]


def bench_result(benched: Benched, recorded: Side | None) -> BenchResult:
    """The measurement with its verdict, against the second side or an earlier one."""

    sides = tuple(msgspec.convert(facts, Side) for facts in benched.sides)
    if recorded is not None:
        sides = (*sides, recorded)
    ratio, notes = None, list[str]()
    if len(sides) > 1:
        noise = noise_of(*(side.drifts for side in sides))
        ratio = ratio_of(sides[0].rates, sides[1].rates, paired=recorded is None, noise=noise)
        notes += incomparable(sides[0].work, sides[1].work, sides[0].host, sides[1].host)
    if recorded is not None:
        notes.append(
            f"{recorded.preset} was measured at another time: changes of the machine since then count as difference"
        )
    return BenchResult(sides, ratio, (*notes, *_load_notes(sides, benched)))


def side_names(sides: tuple[Side, ...]) -> tuple[str, ...]:
    """What each side is called; two may be one preset with other settings."""
    return tuple(f"{'AB'[place]} {side.preset}" if len(sides) > 1 else side.preset for place, side in enumerate(sides))


def _load_notes(sides: tuple[Side, ...], benched: Benched, names: Sequence[str] = ()) -> Iterator[str]:
    names = names or side_names(sides)
    aside = [repeat for side in sides[: len(benched.sides)] for repeat in side.set_aside]
    if aside:
        rounds, most = len(sides[0].set_aside), max(repeat.load.elsewhere_percent or 0.0 for repeat in aside)
        plural = "" if rounds == 1 else "s"
        yield f"{rounds} loaded round{plural} left out: other programs used up to {most:.0f} % of all cores meanwhile"
    if benched.others:
        yield f"{', '.join(benched.others)} ran at the same time: this is the speed beside them"
    busy = [
        f"{name} {number}: {repeat.load.elsewhere_percent:.0f} %"
        for name, side in zip(names, sides, strict=True)
        for number, repeat in enumerate(side.repeats, 1)
        if (repeat.load.elsewhere_percent or 0.0) > NOTED_ELSEWHERE_PERCENT
    ]
    if len(busy) > MOST_NOTED:
        loads = [each.load.elsewhere_percent or 0.0 for side in sides for each in side.repeats]
        yield f"the machine did other work meanwhile: {min(loads):.0f} to {max(loads):.0f} % of all cores"
    elif busy:
        yield f"the machine did other work meanwhile, in % of all cores ({'; '.join(busy)})"
    for name, side in zip(names, sides, strict=True):
        late = max(repeat.timing.overshoot_s for repeat in side.repeats)
        if late > LONG_UPDATES_SHARE * side.asked_s:
            yield f"{name} ended up to {late:.1f} s late, because its updates are long: give a longer --duration"


def bench_facts(found: BenchResult) -> dict[str, Any]:
    """The document of `bench --json`, and of the file beside it."""
    first, *others = [_side_facts(side) for side in found.sides]
    ratio = found.ratio
    facts = msgspec.to_builtins(ratio) if ratio is not None else None
    return {
        "preset": found.sides[0].preset,
        "seconds": found.sides[0].asked_s,
        "steps_per_s": first["steps_per_s"],
        "vs": {name: others[0][name] for name in ("preset", "steps_per_s")} if others else None,
        "ratio": {name: facts[name] for name in ("ratio", "lo", "hi", "sentence")} if facts is not None else None,
        "verdict": ratio.verdict if ratio is not None else None,
        "notes": list(found.notes),
        "sides": [first, *others],
    }


def _side_facts(side: Side) -> dict[str, Any]:

    facts: dict[str, Any] = msgspec.to_builtins(side)
    return {**facts, "steps_per_s": msgspec.to_builtins(pace_of(side.rates))}


def sweep_notes(found: SweepResult, benched: Benched) -> tuple[str, ...]:
    """What to mind of a sweep: its own notes, and what else the machine did."""
    sides = tuple(row.side for row in found.rows if row.side is not None)
    names = [row.label for row in found.rows if row.side is not None]
    return (*found.notes, *_load_notes(sides, benched, names))


def sweep_facts(found: SweepResult, benched: Benched, swept: tuple[str, ...]) -> dict[str, Any]:
    """The document of `bench --sweep --json`, and of the file beside it."""
    timed = [row for row in found.rows if row.side is not None]
    settings = {} if found.profile is None else found.profile.settings
    return {
        "preset": timed[0].side.preset if timed[0].side else "",
        "seconds": timed[0].side.asked_s if timed[0].side else None,
        "sweep": list(swept),
        "better": found.better,
        "best": found.rows[found.best].label,
        "sentence": found.sentence,
        "settings": {table: dict(its) for table, its in settings.items()},
        "rows": [_sweep_row_facts(row) for row in found.rows],
        "notes": list(sweep_notes(found, benched)),
        "sides": [_side_facts(row.side) for row in timed if row.side is not None],
    }


def _sweep_row_facts(row: SweepRow) -> dict[str, Any]:
    ratio = row.ratio
    return {
        "label": row.label,
        "words": list(row.words),
        "steps_per_s": None if row.pace is None else msgspec.to_builtins(row.pace),
        "ratio": None if ratio is None else {name: getattr(ratio, name) for name in ("ratio", "lo", "hi", "verdict")},
        "why": row.why,
    }


def write_sweep(found: SweepResult, benched: Benched) -> None:
    """Print a row for each combination, a bar for each that was timed, the verdict, and what to mind."""
    heads = ("tried", "steps/s", "95 %", "x", "95 % of it", "verdict", "rollout", "update", "memory")
    table = Table(heads, numbers=frozenset({"steps/s", "x", "rollout", "update", "memory"}))
    for row in found.rows:
        table.add(row.label, *_sweep_cells(row))
    table.write(sys.stdout)
    write_bars([(row.label, row.pace.median) for row in found.rows if row.pace is not None])
    for line in left_out((row.label, row.why) for row in found.rows if row.why):
        write(line)
    write(Styled(found.sentence, bold=True))
    for note in sweep_notes(found, benched):
        write(f"- {note}")


def left_out(said: Iterable[tuple[str, str]]) -> list[str]:
    """Labels with the reasons why they were not timed, a line for each reason."""
    by_reason: dict[str, list[str]] = {}
    for label, why in said:
        by_reason.setdefault(why, []).append(label)
    return [f"left out: {'; '.join(labels)}: {why}" for why, labels in by_reason.items()]


def _sweep_cells(row: SweepRow) -> Iterator[str]:
    pace, ratio = row.pace, row.ratio
    if pace is None or row.side is None:
        yield from (DASH,) * 8
        return
    yield count(pace.median)
    yield DASH if pace.lo is None or pace.hi is None else f"{count(pace.lo)} to {count(pace.hi)}"
    yield "1.00" if ratio is None else f"{ratio.ratio:.2f}"
    yield DASH if ratio is None or ratio.lo is None else f"{ratio.lo:.2f} to {ratio.hi:.2f}"
    yield "the preset's own" if ratio is None else ratio.verdict or DASH
    yield f"{statistics.median(each.timing.rollout_share for each in row.side.repeats):.0%}"
    yield f"{statistics.median(each.timing.update_share for each in row.side.repeats):.0%}"
    yield size(max((each.load.peak_pss_bytes or each.load.peak_rss_bytes or 0) for each in row.side.repeats) or None)


def write_bench(found: BenchResult) -> None:
    """Print the repeats, each side in a line, the verdict, and what to mind."""

    heads = ("", "steps/s", "at the end", "updates", "late", "rollout", "update", "other", "CPU", "elsewhere", "memory")
    table = Table((*heads, "best return"), numbers=frozenset((*heads[1:], "best return")))
    names = side_names(found.sides)
    for name, side in zip(names, found.sides, strict=True):
        for number, repeat in enumerate(side.repeats, 1):
            table.add(f"{name} {number}", *_cells(repeat))
    table.write(sys.stdout)
    for name, side in zip(names, found.sides, strict=True):
        pace = pace_of(side.rates)
        interval = "" if pace.lo is None else f", 95 % interval of the mean {count(pace.lo)} to {count(pace.hi)}"
        write(f"{name}: {count(pace.median)} steps/s (median of {len(side.rates)}){interval}")
    if found.ratio is not None:
        write(Styled(f"{names[0]} against {names[1]}: {found.ratio.sentence}", bold=True))
    for note in found.notes:
        write(f"- {note}")


def _cells(repeat: Repeat) -> tuple[str, ...]:
    timing, load = repeat.timing, repeat.load
    shares = (timing.rollout_share, timing.update_share, timing.other_share)
    return (
        count(timing.steps_per_s),
        count(timing.final_steps_per_s),
        count(timing.updates),
        f"{timing.overshoot_s:.1f}s" if timing.overshoot_s < 60 else duration(timing.overshoot_s),
        *(f"{share:.0%}" for share in shares),
        *(in_unit(it, "%") for it in (load.cpu_percent, load.elsewhere_percent)),
        size(load.peak_pss_bytes or load.peak_rss_bytes),
        measure(timing.reward_best),
    )


def tune_result_of(tuned: Tuned) -> TuneResult:
    """What the tune says, as of now."""
    from mission_tui.fleet.tuning.record import ProbeDone, TuneBegun
    from mission_tui.fleet.tuning.tune_state import tune_result

    begun = msgspec.convert(tuned.begun, TuneBegun)
    probes = tuple(msgspec.convert(probe, ProbeDone) for probe in tuned.probes)
    return tune_result(begun, probes, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), tuned.others)


def probe_line(progress: Progress) -> str:
    """One probe that is done, and how many there may be."""
    from mission_tui.fleet.tuning.record import ProbeDone
    from mission_tui.fleet.tuning.tune_state import label_of

    probe = msgspec.convert(progress.fact, ProbeDone)
    rate = f"{probe.steps_per_s:,.0f} steps/s" if probe.steps_per_s is not None else probe.why
    place = f"{progress.done} of at most {progress.total}"
    return f"{place}: {probe.stage} {probe.round}: {label_of(probe.words)}: {rate}"


def tune_facts(found: TuneResult) -> dict[str, Any]:
    """The document of `tune --json`."""
    from mission_tui.fleet.tuning.profile import profile_tables

    ratio = found.ratio
    tables = profile_tables(found.profile)
    return {
        "preset": found.profile.preset,
        "better": found.better,
        "sentence": found.sentence,
        "settings": tables.get("set", {}),
        "ratio": None if ratio is None else {name: getattr(ratio, name) for name in ("ratio", "lo", "hi", "verdict")},
        "rows": [_row_facts(row) for row in found.rows],
        "probes": found.probes,
        "seconds": round(found.seconds, 1),
        "host": tables.get("host", {}),
        "versions": tables.get("versions", {}),
        "notes": list(found.notes),
    }


def _row_facts(row: Row) -> dict[str, Any]:
    return {
        "stage": row.stage,
        "label": row.label,
        "words": list(row.words),
        "steps_per_s": row.median,
        "rates": list(row.rates),
        "ratio": row.ratio,
        "fate": row.fate,
        "why": row.why,
    }


def write_tune(found: TuneResult) -> None:
    """Print the rows, a bar for each that was measured, the verdict, and what to mind."""
    table = Table(("stage", "tried", "steps/s", "spread", "x", "what came of it"), frozenset({"steps/s", "x"}))
    for row in found.rows:
        spread = DASH if len(row.rates) < 2 else f"{count(min(row.rates))} to {count(max(row.rates))}"
        ratio = DASH if row.ratio is None else f"{row.ratio:.2f}"
        table.add(row.stage, row.label, count(row.median), spread, ratio, row.fate)
    table.write(sys.stdout)
    for row in found.rows:
        if row.why:
            write(f"{row.stage} {row.label}: {row.fate}: {row.why}")
    _write_bars(found)
    write(Styled(found.sentence, bold=True))
    if found.profile.words:
        write(f"set: {found.profile.words}")
    write(f"{found.probes} probes in {duration(found.seconds)}")
    for note in found.notes:
        write(f"- {note}")


def _write_bars(found: TuneResult) -> None:
    """Against the fastest of all; rounds differ by what else the machine did, so the ratios above say more."""
    if measured := [(f"{row.stage} {row.label}", statistics.median(row.rates)) for row in found.rows if row.rates]:
        write_bars(measured)


def write_bars(speeds: list[tuple[str, float]]) -> None:
    """A bar of steps/s for each name, as long as its share of the greatest."""
    block = "█" if (sys.stdout.encoding or "").lower().startswith("utf") else "#"
    width, most = max(len(name) for name, _ in speeds), max(1.0, *(speed for _, speed in speeds))
    write()
    for name, speed in speeds:
        bar = block * max(round(BAR * speed / most), int(speed > 0))
        write(f"{name.ljust(width)}  {bar.ljust(BAR)} {count(speed)}")
    write()


def check_output(option: str, path: Path) -> None:
    """Raise `UsageError` naming `option` where `path` is a folder, or lies where nothing can be written.

    Folders that are missing are left to be made with the file. Asked before the minutes are spent that fill it.
    """
    if path.is_dir():
        raise UsageError(f"{option} {path} is a folder; name a file in it, such as {path / 'out'}")
    there = next(folder for folder in path.absolute().parents if folder.exists())
    if not there.is_dir():
        raise UsageError(f"{option} {path}: {there} is not a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"{option} {path}: nothing can be written in {there}")


FORMATS = (".svg", ".png")
_GROUND, _INK, _FAINT, _BAR, _BEST = "#ffffff", "#222222", "#d5d5d5", "#56b4e9", "#009e73"
_WIDTH, _LEFT_MOST, _RIGHT, _MARGIN, _ROW, _HEAD, _FOOT = 860.0, 380.0, 110.0, 16.0, 30.0, 74.0, 46.0
_CHARACTER, _SIZE = 7.3, 12.0
_SENTENCE_CHARACTERS, _SENTENCE_LINES = 112, 2


@dataclass(frozen=True, slots=True)
class Bar:
    """Steps per second of each repeat of what is called `name`; the `best` one has another colour."""

    name: str
    rates: tuple[float, ...]
    best: bool = False


def check_picture(path: Path) -> None:
    """Raise `UsageError` for a picture of another format, without a folder to write it to, or that nothing can draw."""
    from mission_tui.tui.plot.picture_file import fonts_folder

    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"--figure {path}: the name has to end in {' or '.join(FORMATS)}")
    check_output("--figure", path)
    if path.suffix.lower() == ".png" and fonts_folder() is None:
        raise UsageError(f"--figure {path}: a PNG needs an extra package ({install_words('report')}); .svg needs none")


def bench_bars(found: BenchResult, names: Sequence[str]) -> tuple[list[Bar], str]:
    """A bar for each side, and the verdict."""
    bars = [Bar(name, side.rates) for name, side in zip(names, found.sides, strict=True)]
    return bars, "" if found.ratio is None else f"{names[0]} against {names[1]}: {found.ratio.sentence}"


def sweep_bars(found: SweepResult) -> tuple[list[Bar], str]:
    """A bar for each combination that was timed, and the verdict."""
    timed = [(at, row) for at, row in enumerate(found.rows) if row.side is not None]
    return [Bar(row.label, row.side.rates, at == found.best) for at, row in timed if row.side], found.sentence


def write_picture(path: Path, title: str, bars: Sequence[Bar], sentence: str) -> None:
    """Draw `bars` into `path`, replacing what was there, in a folder that is made if need be. Raises `StorageError`."""
    from mission_tui.tui.plot.picture_file import PngSurface, SvgSurface, fonts_folder

    height = _HEAD + _ROW * len(bars) + _FOOT
    fonts = fonts_folder() if path.suffix.lower() == ".png" else None
    surface: SvgSurface | PngSurface = (
        SvgSurface(_WIDTH, height, _GROUND) if fonts is None else PngSurface(_WIDTH, height, _GROUND, fonts)
    )
    draw_bars(surface, title, bars, sentence)
    write_atomic_group(path.parent, {path.name: surface.data()})


def draw_bars(surface: Surface, title: str, bars: Sequence[Bar], sentence: str) -> None:
    """The whole picture on `surface`, `_WIDTH` units wide."""
    from mission_tui.cli.tables.comparison import ticks

    left = min(_LEFT_MOST, 2 * _MARGIN + _CHARACTER * max(len(bar.name) for bar in bars))
    right, bottom = _WIDTH - _RIGHT, _HEAD + _ROW * len(bars)
    most = max(1e-9, *(rate for bar in bars for rate in bar.rates))

    def across(rate: float) -> float:
        return left + (right - left) * min(rate, 1.05 * most) / most

    surface.text((_MARGIN, 24.0), title, _INK, 14.0, bold=True)
    said = textwrap.wrap(sentence, _SENTENCE_CHARACTERS, max_lines=_SENTENCE_LINES, placeholder=" …")
    for at, line in enumerate(said):
        surface.text((_MARGIN, 43.0 + 16.0 * at), line, _INK, _SIZE)
    for tick in ticks(0.0, most):
        surface.line([(across(tick), _HEAD - 4), (across(tick), bottom)], _FAINT, 1.0)
        surface.text((across(tick), bottom + 16), count(tick), _INK, _SIZE, "middle")
    surface.text(((left + right) / 2, bottom + 34), "steps per second, each dot a repeat", _INK, _SIZE, "middle")
    for at, bar in enumerate(bars):
        middle, pace = _HEAD + _ROW * (at + 0.5), pace_of(bar.rates)
        surface.boxes([(left, middle - 9, across(pace.median) - left, 18.0)], _BEST if bar.best else _BAR)
        if pace.lo is not None and pace.hi is not None:
            low, high = across(max(0.0, pace.lo)), across(pace.hi)
            surface.line([(low, middle), (high, middle)], _INK, 1.2)
            for end in (low, high):
                surface.line([(end, middle - 4), (end, middle + 4)], _INK, 1.2)
        surface.boxes([(across(rate) - 2, middle - 2, 4.0, 4.0) for rate in bar.rates], _INK)
        name = _cut(bar.name, round((left - 2 * _MARGIN) / _CHARACTER))
        surface.text((left - 8, middle + 4), name, _INK, _SIZE, "end")
        surface.text((_WIDTH - _MARGIN, middle + 4), count(pace.median), _INK, _SIZE, "end")


def _cut(words: str, characters: int) -> str:
    return words if len(words) <= characters else f"{words[: characters - 1]}…"
