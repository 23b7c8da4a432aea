"""A tune as people and programs read it: each probe as it comes, then a row per candidate, bars, the verdict, notes."""

from __future__ import annotations

import statistics
import sys
import time
from typing import TYPE_CHECKING, Any

import msgspec

from mission_tui.cli.tables.table import Table
from mission_tui.cli.terminal_output import styled, write
from mission_tui.present.numbers import DASH, count, duration

if TYPE_CHECKING:
    from mission_tui.fleet.tuning.tune_result import Row, TuneResult
    from mission_tui.ipc.replies import Progress, Tuned


BAR = 30


def tune_result_of(tuned: Tuned) -> TuneResult:
    """What the tune says, as of now."""
    from mission_tui.fleet.tuning.record import ProbeDone, TuneBegun
    from mission_tui.fleet.tuning.tune_result import tune_result

    begun = msgspec.convert(tuned.begun, TuneBegun)
    probes = tuple(msgspec.convert(probe, ProbeDone) for probe in tuned.probes)
    return tune_result(begun, probes, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), tuned.others)


def probe_line(progress: Progress) -> str:
    """One probe that is done, and how many there may be."""
    from mission_tui.fleet.tuning.candidates import label_of
    from mission_tui.fleet.tuning.record import ProbeDone

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
    write(styled(found.sentence, bold=True))
    if found.profile.words:
        write(f"set: {found.profile.words}")
    write(f"{found.probes} probes in {duration(found.seconds)}")
    for note in found.notes:
        write(f"- {note}")


def _write_bars(found: TuneResult) -> None:
    """Against the fastest of all; rounds differ by what else the machine did, so the ratios above say more."""
    measured = [(row, statistics.median(row.rates)) for row in found.rows if row.rates]
    if not measured:
        return
    most = max(rate for _, rate in measured)
    block = "█" if (sys.stdout.encoding or "").lower().startswith("utf") else "#"
    width = max(len(f"{row.stage} {row.label}") for row, _ in measured)
    write()
    for row, rate in measured:
        bar = block * max(1, round(BAR * rate / most))
        write(f"{row.stage} {row.label}".ljust(width) + f"  {bar.ljust(BAR)} {count(rate)}")
    write()
