"""The JSON documents of the command line: which facts each holds and under which names (`docs/json.md` shows them all).

Every document carries `"schema": 1`; a name, once in a schema, keeps its meaning. Unknown is null, bytes and seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from mission_tui.cli.terminal_output import write_json
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.marginal_gain import MarginalGain
from mission_tui.fleet.views.snapshot import FleetSnapshot, RunView, TrialView

if TYPE_CHECKING:
    from mission_tui.ipc.replies import Checked, DetailsReply


SCHEMA = 1

# fmt: off
RUN_FACTS = (
    "id", "name", "preset", "group", "state", "outcome", "kind", "cause", "flags", "attempt", "update", "timesteps",
    "total_timesteps", "steps_per_s", "eta_s", "eta_low_s", "eta_high_s", "best", "goal", "seed", "varied", "labels",
    "note", "changes", "pids", "usage", "workers",
    "held", "restart", "again", "rebooted", "failed_duties", "checkpoint_t", "placed",
    "launcher", "node", "heartbeat_t", "size_bytes", "can", "findings", "branch_of", "run_dir",
)
TRIAL_FACTS = (
    "number", "checkpoint", "from_update", "from_timesteps", "until_timesteps", "updates", "seeds", "group", "finding",
)
PAIR_FACTS = ("pair", "seed", "control", "advised", "why")
VERDICT_FACTS = (
    "says", "difference", "low", "high", "control", "advised", "margin", "identical", "more_updates", "more_seeds",
    "best", "why",
)
FINDING_FACTS = (
    "id", "rule", "severity", "first_update", "last_update", "state", "sentence", "cause", "advice", "advice_set",
    "evidence", "part_of", "undo",
)
PAYOFF_FACTS = (
    "t", "change", "verdict", "others", "together", "less_per_s", "more_per_s", "gain", "low", "high", "seconds",
    "full", "elsewhere",
)
ORIGIN_FACTS = ("kind", "run", "name", "checkpoint", "diff")
HOST_FACTS = (
    "name", "cores", "cpu_percent", "cpu_cores", "load_1m", "ram_used", "ram_total", "swap_used", "swap_total",
    "disk_free", "gpu_note", "alone_note", "disk_full", "disk_full_in_s", "disk_full_low_s", "disk_full_high_s",
    "others",
)
GPU_FACTS = (
    "uuid", "name", "util", "memory_used", "memory_total", "power_w", "temperature_c", "clock_mhz", "slowed",
    "compute_mode", "parent", "unknown",
)
# fmt: on


def _picked(value: msgspec.Struct, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: msgspec.to_builtins(getattr(value, name)) for name in names}


def finding_facts(finding: Finding) -> dict[str, Any]:
    """One finding as scripts see it."""
    return _picked(finding, FINDING_FACTS)


def run_facts(view: RunView) -> dict[str, Any]:
    """One run as `status`, `launch` and `wait` print it."""
    origins = [_picked(origin, ORIGIN_FACTS) for origin in view.origins]
    payoff = None if view.payoff is None else payoff_facts(view.payoff)
    return _picked(view, RUN_FACTS) | {
        "from": origins,
        "payoff": payoff,
        "findings": [finding_facts(it) for it in view.findings],
        "trials": [trial_facts(it) for it in view.trials],
    }


def trial_facts(trial: TrialView) -> dict[str, Any]:
    """A trial of other settings; its verdict is null until it is known."""
    verdict = trial.verdict
    said = None
    if verdict is not None:
        said = _picked(verdict, VERDICT_FACTS) | {"pairs": [_picked(it, PAIR_FACTS) for it in verdict.pairs]}
    return _picked(trial.plan, TRIAL_FACTS) | {
        "set": list(trial.plan.assignments),
        "t": trial.t,
        "closed": trial.closed or None,
        "taken_by": trial.taken_by or None,
        "verdict": said,
        "sentence": trial.sentence,
    }


def payoff_facts(gain: MarginalGain) -> dict[str, Any]:
    """What a run brought, every name of it there."""
    return _picked(gain, PAYOFF_FACTS)


def provenance_facts(details: DetailsReply) -> dict[str, Any]:
    """From what one run was launched; null where that is not recorded."""
    return {"id": details.view.id, "provenance": msgspec.to_builtins(details.provenance)}


def check_facts(preset: str, checked: Checked) -> dict[str, Any]:
    """What a smoke run said of one preset; `figures` is null where it did not come so far."""
    facts: dict[str, Any] = msgspec.to_builtins(checked)
    return {"preset": preset, "steps": facts["steps"], "figures": facts["figures"]}


def top_facts(snapshot: FleetSnapshot) -> dict[str, Any]:
    """The document of `top`: the machine, what each run takes of it, and how it is shared."""
    from mission_tui.present.machines import share_of

    return {
        "host": _picked(snapshot.host, HOST_FACTS),
        "gpus": [_picked(gpu, GPU_FACTS) for gpu in snapshot.gpus],
        "failed_duties": msgspec.to_builtins(snapshot.failed_duties),
        "runs": [_picked(view, ("id", "name", "state", "phase", "usage")) for view in snapshot.runs if view.usage],
        "share": msgspec.to_builtins(share_of(snapshot.host, snapshot.gpus, snapshot.runs)),
        "paid": [{"run": paid.run, "name": paid.name, "payoff": payoff_facts(paid.payoff)} for paid in snapshot.paid],
    }


def status_facts(snapshot: FleetSnapshot, runs: tuple[RunView, ...]) -> dict[str, Any]:
    """The document of `status`: the machine, and of the snapshot's fleet the given runs."""
    return {
        "runs_root": snapshot.runs_root,
        "supervisor": {"pid": snapshot.supervisor.pid, "version": snapshot.supervisor.version},
        "host": _picked(snapshot.host, HOST_FACTS),
        "gpus": [_picked(gpu, GPU_FACTS) for gpu in snapshot.gpus],
        "failed_duties": msgspec.to_builtins(snapshot.failed_duties),
        "runs": [run_facts(view) for view in runs],
        "stale": [msgspec.to_builtins(stale) for stale in snapshot.stale],
        "elsewhere": [msgspec.to_builtins(other) for other in snapshot.elsewhere],
        "unread": snapshot.unread,
    }


def write_document(facts: dict[str, Any]) -> None:
    """Print one document on stdout, as one line."""
    write_json({"schema": SCHEMA, **facts})
