"""`make health`: judge every labelled run, score the incidents, and write `docs/health.md`.

Constants were chosen on the outside runs and on the constructed runs of the split `tune`; everything that is claimed
for constructed runs is of the split `judge`, whose seeds were not looked at before.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.health import tables
from benchmarks.health.cases import Case, constructed, judged, outside
from benchmarks.health.falsification import shuffled
from benchmarks.health.leave_one_out import LeftOut, leave_one_out
from benchmarks.health.scoring import Scored, score
from mission_tui.fleet.specs.thresholds import Limits

DOCS = Path(__file__).resolve().parents[2] / "docs"
KL = ("kl-persistent", "kl-spike", "kl-creep")
OURS = {
    "`kl-persistent`": ("kl-persistent",),
    "`kl-persistent`, `kl-spike`, `kl-creep`": KL,
    "`clip-fraction`": ("clip-fraction",),
    "`stall`": ("stall",),
    "`drawdown`": ("drawdown",),
    "`explained-variance`": ("explained-variance",),
    "`policy-frozen`": ("policy-frozen",),
}


def main() -> None:
    """Score, and write the page."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--print", action="store_true", help="print the page instead of writing it")
    words.add_argument("--split", choices=("judge", "tune"), default="judge")
    asked = words.parse_args()
    began = time.monotonic()
    limits = Limits()
    of_others, ours = outside(), constructed()
    scored = score((*of_others, *ours), lambda case: judged(case, limits))
    shown = [one for one in scored if one.case.source == "outside" or one.case.split == asked.split]
    page = _page(shown, leave_one_out([case for case in (*of_others, *ours) if _for_tuning(case)]))
    if asked.print:
        sys.stdout.write(page)
    else:
        (DOCS / "health.md").write_text(page + _pictures(shown), encoding="utf-8")
    print(f"{len(scored)} runs judged and scored in {time.monotonic() - began:.0f} s", file=sys.stderr)


def _for_tuning(case: Case) -> bool:
    return case.source == "outside" or case.split == "tune"


def _page(scored: Sequence[Scored], constants: Sequence[LeftOut]) -> str:
    foreign = [one for one in scored if one.case.source == "outside"]
    own = [one for one in scored if one.case.source == "constructed"]
    sections = [HEAD]
    if not foreign:
        sections.append("**The outside runs are not on this machine: their rows are missing below.**")
    sources = {"outside": foreign, f"constructed, split {own[0].case.split}" if own else "": own}
    sections += ["## False incidents", tables.false_incidents({name: runs for name, runs in sources.items() if runs})]
    sections += [tables.false_ones(scored), STRICT]
    sections += [
        "## Sick runs found",
        tables.recalls(own),
        tables.precision_line(own),
        "### Missed",
        tables.missed(own),
    ]
    sections += ["## By rule", tables.by_rule(scored)]
    sections += ["## Beside the limits that people use", BESIDE]
    if foreign:
        sections += ["### Outside runs", tables.against_baselines(foreign, OURS, lambda case: bool(case.events))]
    sections += ["### Constructed runs", tables.against_baselines(own, OURS, lambda case: bool(case.rules))]
    if foreign:
        sections += ["## Dated events of the outside runs", tables.events_found(foreign)]
        sections += ["### Outside runs that are not healthy", tables.verdicts_on_failed(foreign)]
    sections += ["## Constants, each environment left out", LEFT_OUT, tables.left_out(constants)]
    sections += ["## Shuffled labels", tables.falsification(shuffled(own))]
    return "\n\n".join(sections) + "\n"


def _pictures(scored: Sequence[Scored]) -> str:
    try:
        from benchmarks.health.plots import draw
    except ModuleNotFoundError:
        print("no pictures: pip install -c constraints.txt 'mission-tui[report]'", file=sys.stderr)
        return ""
    names = draw(scored, DOCS / "health")
    return "\n## Pictures\n\n" + "\n\n".join(f"![{name.removesuffix('.svg')}](health/{name})" for name in names) + "\n"


HEAD = """# How good the findings are

Written by `make health` from the labelled runs; the numbers are what came out. An incident is one stretch of trouble,
not one alert per update. It is *false* if it lies where nothing was wrong, with a tolerance of 10 updates (50 for
rules about trends). Only warnings and criticals count, not information. Intervals are bootstraps over runs.

*Outside* runs are training logs that this project did not write; they are read in place and not part of it.
*Constructed* runs were recorded by `make health-traces`: something was done to a real training midway, and it counts as
sick only if a harm that was fixed beforehand, seen in another signal than the one the rule reads first, is really
there. The others are further healthy runs.

`checkpoint-age` has no place in the score: it judges no learning, but what a crash would cost. It warns where a
checkpoint could not be saved, or where training since the newest one passes twice its interval
(`keep.checkpoint.every_s`); it is critical after three failures in a row, or three intervals.

Nor has `thread-contention`: it judges the machine and not the learning. It warns where the threads of a command wait
for a core more than 40 % of the time that they want to compute, for half a minute, while others keep cores busy, unless
its speed is known not to have fallen. No row has that: `findings --replay` takes it from the journal."""

STRICT = """`epochs-40-pendulum-s4` counts as healthy because its last quarter came back into its twin's band, although
in between its KL reached 13 and its return fell by 700: the test of harm was fixed before and stays."""

BESIDE = """The naive limits are those of dashboards: an alarm from the first row over to the first row below.
*Caught* are runs with a dated event (outside) or with a known harm (constructed) about which the limit said anything at
the right time; each limit looks at one kind of trouble only, so none should catch all."""

LEFT_OUT = """Each constant is chosen again from a grid, on all runs except those of one environment, by recall less
false incidents per 1,000 updates, and then scored on the environment that was left out. Where the choice differs from
what is shipped, the difference in the last two columns is the price of having chosen on these environments."""


if __name__ == "__main__":
    main()
