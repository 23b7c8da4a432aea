"""What a launch is about to make: a row per run, with the settings in which the runs differ, and what auto-scaling does
to them; and the price of it, without starting anything: asked of a running supervisor, else read from the run files,
else estimated from the settings. As tables on stderr or facts of a document.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mission_tui.cli.terminal_output import Table, print_error
from mission_tui.control_groups import usable_cores
from mission_tui.errors import MissionError, NoSupervisorError
from mission_tui.present import numbers

if TYPE_CHECKING:
    from mission_tui.cli.session import Session
    from mission_tui.fleet.capacity.demand import Cost, ReferenceSpeed
    from mission_tui.fleet.specs.spec import LaunchItem, Spec
    from mission_tui.ipc.client import Connection
    from mission_tui.ipc.replies import Quoted


_COLUMNS = ("run", "memory", "GPU memory", "cores", "first update", "whole run", "now")
_NUMBERS = frozenset({"memory", "GPU memory", "cores", "first update", "whole run"})


def launch_price(session: Session, items: Sequence[LaunchItem]) -> Quoted:
    """The cost of each item. If one source fails, that is printed and the next one is asked.

    Raises `UsageError` where the runs root cannot be written: a launch would be refused for that.
    """
    from mission_tui.ipc.client import Connection

    session.require_writable_root()
    try:
        with session.connect(start=False) as connection:
            return _asked(session, connection, items)
    except NoSupervisorError:
        pass
    except MissionError as error:
        print_error(f"the cost is estimated from the run files only: {error}")
    try:
        with Connection.connect_readonly(session.root) as connection:
            return _asked(session, connection, items)
    except MissionError as error:
        if session.root.exists():
            print_error(f"the cost is estimated from the settings only: {error}")
        return _estimated(items, session.environ)


def _asked(session: Session, connection: Connection, items: Sequence[LaunchItem]) -> Quoted:
    from mission_tui.ipc.requests import Quote

    return connection.ask(lambda id_: Quote(id=id_, items=tuple(items), **session.origin))


def _estimated(items: Sequence[LaunchItem], environ: Mapping[str, str]) -> Quoted:
    """From the settings alone: there is no runs root yet, or it cannot be read."""
    from mission_tui.fleet.capacity.demand import estimated_cost
    from mission_tui.fleet.specs.consistency import cautions, default_threads
    from mission_tui.gpu_driver import has_gpu
    from mission_tui.ipc.replies import Quoted

    cores, driver = usable_cores(), has_gpu()
    costs = tuple(estimated_cost(item.spec, cores, driver=driver) for item in items)
    specs = [item.spec for item in items]
    warnings = [f"{spec.preset}: {caution}" for spec in specs for caution in cautions(spec)]
    warnings += default_threads(specs, environ, cores, round(os.getloadavg()[0]))
    return Quoted(re=0, costs=costs, decided=False, warnings=tuple(dict.fromkeys(warnings)))


def price_facts(items: Sequence[LaunchItem], quoted: Quoted) -> dict[str, Any]:
    """The plan with the cost of each run, its source, why a launch would be refused, and its warnings."""
    plan, decided = plan_facts(items), quoted.decided and not quoted.refused
    costs = (cost_facts(item.spec, cost, decided=decided) for item, cost in zip(items, quoted.costs, strict=True))
    return {
        "group": plan["group"],
        "asked": "supervisor" if quoted.decided else "files",
        "refused": quoted.refused or None,
        "warnings": list(quoted.warnings),
        "runs": [run | {"cost": cost} for run, cost in zip(plan["runs"], costs, strict=True)],
    }


def cost_facts(spec: Spec, cost: Cost, *, decided: bool) -> dict[str, Any]:
    """The price of one run in bytes and seconds; what is not known is null."""
    from mission_tui.fleet.capacity.demand import first_update_s, whole_run_range_s, whole_run_s

    pace = cost.pace
    low_s, high_s = whole_run_range_s(spec, pace) or (None, None)
    return {
        "ram_bytes": cost.ram_bytes,
        "ram_seen": cost.ram_seen,
        "vram_bytes": cost.vram_bytes,
        "vram_seen": cost.vram_seen,
        **_replay_facts(spec),
        "cores": cost.cores,
        "gpu": cost.gpu,
        "begins": not cost.waits if decided else None,
        "waits": cost.waits or None,
        "first_update_s": first_update_s(spec, pace),
        "whole_run_s": whole_run_s(spec, pace),
        "whole_run_low_s": low_s,
        "whole_run_high_s": high_s,
        "pace": None
        if pace is None
        else {"run": pace.name, "t": pace.t, "steps_per_s": pace.steps_per_s, "differs": list(pace.differs)},
    }


def _replay_facts(spec: Spec) -> dict[str, Any]:
    """What the replay buffer takes; empty for an algorithm without one."""
    from mission_tui.fleet.specs.sizes import replay_size

    replay = replay_size(spec)
    if replay is None:
        return {}
    return {"replay_bytes": replay.full_bytes, "replay_checkpoint_bytes": replay.checkpoint_bytes}


def show_price(items: Sequence[LaunchItem], quoted: Quoted) -> None:
    """A row for each kind of price, and what it was taken from."""
    from mission_tui.cli.terminal_output import Table

    table = Table(_COLUMNS, numbers=_NUMBERS)
    for cells, names in _grouped(items, quoted).items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        table.add(f"{names[0]}{more}", *cells)
    table.write(sys.stderr)
    for sentence in _notes(items, quoted):
        print_error(sentence)


def _grouped(items: Sequence[LaunchItem], quoted: Quoted) -> dict[tuple[str, ...], list[str]]:
    """The names of the runs of every price, in their order."""
    found: dict[tuple[str, ...], list[str]] = {}
    decided = quoted.decided and not quoted.refused
    for number, (item, cost) in enumerate(zip(items, quoted.costs, strict=True), 1):
        found.setdefault(_cells(item.spec, cost, decided=decided), []).append(item.name or str(number))
    return found


def _cells(spec: Spec, cost: Cost, *, decided: bool) -> tuple[str, ...]:
    from mission_tui.fleet.capacity.demand import first_update_s
    from mission_tui.fleet.specs.spec import LAUNCHERS

    gpu = "none" if cost.vram_bytes is None else f"{numbers.size(cost.vram_bytes)} {_source(seen=cost.vram_seen)}"
    first = first_update_s(spec, cost.pace)
    elsewhere = spec.run.launcher != LAUNCHERS[0]
    begins = (
        f"handed to {spec.run.launcher}" if elsewhere else "begins" if cost.gpu is None else f"begins on GPU {cost.gpu}"
    )
    return (
        f"{numbers.size(cost.ram_bytes)} {_source(seen=cost.ram_seen)}",
        gpu,
        str(cost.cores),
        numbers.duration_range(first, first),
        _whole_run(spec, cost.pace),
        (cost.waits or begins) if decided else numbers.DASH,
    )


def _whole_run(spec: Spec, pace: ReferenceSpeed | None) -> str:
    from mission_tui.fleet.capacity.demand import whole_run_range_s, whole_run_s

    middle = whole_run_s(spec, pace)
    return numbers.duration_range(*(whole_run_range_s(spec, pace) or (middle, middle)))


def _source(*, seen: bool) -> str:
    return "measured" if seen else "est."


def _notes(items: Sequence[LaunchItem], quoted: Quoted) -> Iterator[str]:
    costs = quoted.costs
    if len(costs) > 1:
        yield numbers.all_at_once(costs)
    learners = [
        (item.spec.preset, cost.pace) for item, cost in zip(items, costs, strict=True) if not item.spec.run.command
    ]
    several = len({preset for preset, _ in learners}) > 1
    yield from dict.fromkeys(
        f"{item.spec.preset}: {words}; keep.checkpoint.replay_buffer=false keeps it out of checkpoints"
        for item in items
        if (words := numbers.replay_words(item.spec))
    )
    yield from dict.fromkeys(f"{preset}: {_pace(pace)}" if several else _pace(pace) for preset, pace in learners)
    if quoted.refused:
        yield f"a launch would be refused: {quoted.refused}"
    yield from quoted.warnings
    if not quoted.decided:
        yield "no supervisor is running, so it is not known what would start at once; a launch starts one"


def _pace(pace: ReferenceSpeed | None) -> str:
    if pace is None:
        return "no similar run has run here, so its speed is not known"
    but = f", which had {differs}" if (differs := numbers.differing_words(pace)) else ""
    seen = time.strftime("%d %b %H:%M", time.localtime(pace.t))
    others = f" and {pace.runs - 1} run{'s' * (pace.runs > 2)} before" if pace.runs > 1 else ""
    return f"times assume {_speed(pace)} steps/s, as measured for {pace.name} on {seen}{others}{but}"


def _speed(pace: ReferenceSpeed) -> str:
    if pace.low_steps_per_s is None or pace.high_steps_per_s is None:
        return numbers.count(pace.steps_per_s)
    low, high = numbers.count(pace.low_steps_per_s), numbers.count(pace.high_steps_per_s)
    return low if low == high else f"{low} to {high}"


_CELL = 40
_OWN = ("preset", "description", "run.seed")


def plan_facts(items: Sequence[LaunchItem]) -> dict[str, Any]:
    """The group, and of each run its name (null: by preset and id), preset, seed and the settings that differ."""
    tables = [_settings(item) for item in items]
    names = dict.fromkeys(name for table in tables for name in table)
    varied = [name for name in names if any(table.get(name) != tables[0].get(name) for table in tables)]
    return {
        "group": items[0].group,
        "runs": [
            {
                "name": item.name,
                "preset": item.spec.preset,
                "seed": item.spec.run.seed,
                "settings": {name: table.get(name) for name in varied},
            }
            for item, table in zip(items, tables, strict=True)
        ],
    }


def show_plan(items: Sequence[LaunchItem]) -> None:
    """Say it before anything starts."""
    facts = plan_facts(items)
    from mission_tui.fleet.specs.flat_settings import value_word
    from mission_tui.fleet.text import clean
    from mission_tui.present.numbers import DASH

    runs = facts["runs"]
    table = Table(("run", "preset", *runs[0]["settings"], "seed"), numbers=frozenset({"seed"}))
    for number, run in enumerate(runs, 1):
        words = (clean(value_word(value), _CELL) for value in run["settings"].values())
        table.add(run["name"] or str(number), run["preset"], *words, DASH if run["seed"] is None else str(run["seed"]))
    group = f", group {facts['group']}: `mission-tui compare {facts['group']}` ranks them" if facts["group"] else ""
    print_error(f"{len(runs)} run{'' if len(runs) == 1 else 's'}{group}")
    table.write(sys.stderr)


def show_scaling(items: Sequence[LaunchItem]) -> None:
    """What auto-scaling makes of each preset that has it on, before and after; each only once."""
    from mission_tui.fleet.specs.sizes import scaling_of

    shown: list[object] = []
    for item in items:
        scaling = scaling_of(item.spec)
        if scaling is None or scaling in shown:
            continue
        shown.append(scaling)
        table = Table(
            ("one update", "reference", "without", "auto-scaled"), frozenset({"reference", "without", "auto-scaled"})
        )
        for row in scaling.rows:
            table.add(
                row.name,
                *(f"{value:,g}" if value < 1 else f"{value:,}" for value in (row.reference, row.without, row.scaled)),
            )
        print_error(f"run.auto_scale of {item.spec.preset}; values written in the preset or given with --set are kept")
        table.write(sys.stderr)
        if scaling.sentence:
            print_error(scaling.sentence)


def _settings(item: LaunchItem) -> dict[str, Any]:
    """Every written setting by its dotted name."""
    from mission_tui.fleet.specs.preset import as_tables

    flat: dict[str, Any] = {}
    pending: list[tuple[str, Any]] = list(as_tables(item.spec).items())
    while pending:
        name, value = pending.pop(0)
        if isinstance(value, Mapping):
            pending = [(f"{name}.{key}", inner) for key, inner in value.items()] + pending
        elif name not in _OWN:
            flat[name] = value
    return flat
