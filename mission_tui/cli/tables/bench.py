"""Timed runs as people and programs read them: a row per repeat, the verdict, and what to mind about it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from mission_tui.cli.tables.table import Table
from mission_tui.cli.terminal_output import styled, write
from mission_tui.present.numbers import count, duration, in_unit, measure, size

if TYPE_CHECKING:
    from mission_tui.fleet.bench import Ratio, Repeat, Side
    from mission_tui.ipc.replies import Benched


NOTED_ELSEWHERE_PERCENT = 10.0
LONG_UPDATES_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class BenchResult:
    """What was measured: the preset first, then what it was held against, if anything was."""

    sides: tuple[Side, ...]
    ratio: Ratio | None
    notes: tuple[str, ...]


def bench_result(benched: Benched, recorded: Side | None) -> BenchResult:
    """The measurement with its verdict, against the second side or an earlier one."""
    from mission_tui.fleet.bench import Side, incomparable, noise_of, ratio_of

    sides = tuple(msgspec.convert(facts, Side) for facts in benched.sides)
    if recorded is not None:
        sides = (*sides, recorded)
    ratio, notes = None, list[str]()
    if len(sides) > 1:
        noise = noise_of(*(side.drifts for side in sides))
        ratio = ratio_of(sides[0].rates, sides[1].rates, paired=recorded is None, noise=noise)
        notes += incomparable(sides[0].work, sides[1].work, sides[0].host, sides[1].host)
    if recorded is not None:
        notes.append(f"{recorded.preset} was measured at another time, so a machine that changed since looks like it")
    return BenchResult(sides, ratio, (*notes, *_load_notes(sides, benched)))


def _names(sides: tuple[Side, ...]) -> tuple[str, ...]:
    """What each side is called; two may be one preset with other settings."""
    return tuple(f"{'AB'[place]} {side.preset}" if len(sides) > 1 else side.preset for place, side in enumerate(sides))


def _load_notes(sides: tuple[Side, ...], benched: Benched) -> Iterator[str]:
    aside = [repeat for side in sides[: len(benched.sides)] for repeat in side.set_aside]
    if aside:
        rounds, most = len(sides[0].set_aside), max(repeat.load.elsewhere_percent or 0.0 for repeat in aside)
        plural = "" if rounds == 1 else "s"
        yield f"{rounds} loaded round{plural} left out: other work took up to {most:.0f} % of all cores meanwhile"
    if benched.others:
        yield f"beside them lived {', '.join(benched.others)}: what is measured is the speed in that company"
    busy = [
        f"{name} {number}: {repeat.load.elsewhere_percent:.0f} %"
        for name, side in zip(_names(sides), sides, strict=True)
        for number, repeat in enumerate(side.repeats, 1)
        if (repeat.load.elsewhere_percent or 0.0) > NOTED_ELSEWHERE_PERCENT
    ]
    if busy:
        yield f"the machine did other work meanwhile, of all its cores ({'; '.join(busy)})"
    for name, side in zip(_names(sides), sides, strict=True):
        late = max(repeat.timing.overshoot_s for repeat in side.repeats)
        if late > LONG_UPDATES_SHARE * side.asked_s:
            yield f"{name} ended up to {late:.1f} s late, for its updates are long; give a longer --duration"


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
    from mission_tui.fleet.bench import pace_of

    facts: dict[str, Any] = msgspec.to_builtins(side)
    return {**facts, "steps_per_s": msgspec.to_builtins(pace_of(side.rates))}


def write_bench(found: BenchResult) -> None:
    """Print the repeats, each side in a line, the verdict, and what to mind."""
    from mission_tui.fleet.bench import pace_of

    heads = ("", "steps/s", "at the end", "updates", "late", "rollout", "update", "other", "CPU", "elsewhere", "memory")
    table = Table((*heads, "best return"), numbers=frozenset((*heads[1:], "best return")))
    names = _names(found.sides)
    for name, side in zip(names, found.sides, strict=True):
        for number, repeat in enumerate(side.repeats, 1):
            table.add(f"{name} {number}", *_cells(repeat))
    table.write(sys.stdout)
    for name, side in zip(names, found.sides, strict=True):
        pace = pace_of(side.rates)
        interval = "" if pace.lo is None else f", 95 % interval of the mean {count(pace.lo)} to {count(pace.hi)}"
        write(f"{name}: {count(pace.median)} steps/s (median of {len(side.rates)}){interval}")
    if found.ratio is not None:
        write(styled(f"{names[0]} against {names[1]}: {found.ratio.sentence}", bold=True))
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
