"""Runs as text: the fleet as `status` and `wait` print it, a line about the machine and a row per run; and details of
one run, from what it was launched and the PPO settings that it really trains with.

The settings are read back from its model, not from what was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mission_tui.cli.terminal_output import Table
from mission_tui.fleet.events.findings import CHECKPOINT
from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.specs.flat_settings import value_word
from mission_tui.fleet.specs.sb3_algorithms import OTHERS
from mission_tui.fleet.specs.spec import part_words
from mission_tui.fleet.text import clean
from mission_tui.present.numbers import DASH, count, due, in_unit, measure, percent, size, until_full
from mission_tui.present.run_state import asks_for_action, share_done, state_word, stuck_sentence, time_left

if TYPE_CHECKING:
    from mission_tui.fleet.views.snapshot import FleetSnapshot, HostMeters, RunView
    from mission_tui.ipc.replies import DetailsReply


_FULL_PERCENT = 90.0
_EXPECTED = (None, "", "stopped by you", "killed by you", "ended by you before it had begun")

_MAY_WAIT = ("queued", "starting", "frozen", "stopping")

_CHARACTERS = 20_000
SECTIONS = ("env", "ppo", *OTHERS, "run", "model")


def machine_line(snapshot: FleetSnapshot) -> str:
    """Runs root, supervisor, and what the host and its GPUs do."""
    host = snapshot.host
    cpu = in_unit(host.cpu_percent, "%")
    words = [
        f"{host.name}:{snapshot.runs_root}",
        "read from its files" if snapshot.supervisor.pid is None else f"supervisor {snapshot.supervisor.pid}",
        f"CPU {cpu} of {host.cores}",
        f"RAM {size(host.ram_used)}/{size(host.ram_total)}",
        f"disk {size(host.disk_free)} free{_full_in(host)}",
    ]
    for place, gpu in enumerate(snapshot.gpus):
        busy = in_unit(gpu.util.mean, "%")
        words.append(f"GPU{place} {busy} {size(gpu.memory_used)}/{size(gpu.memory_total)}")
    if host.disk_full:
        words.append("DISK FULL: nothing new is started")
    if host.gpu_note:
        words.append(host.gpu_note)
    if host.alone_note:
        words.append(f"reservations of others are not known ({host.alone_note})")
    words += [failed.sentence for failed in snapshot.failed_duties]
    return "  ".join(words)


def _full_in(host: HostMeters) -> str:
    return "" if host.disk_full_in_s is None else f", full in {until_full(host)}"


def fleet_table(views: tuple[RunView, ...], now: float | None = None) -> Table:
    """A row per run, with the settings that vary within its launch; the last column is what went wrong, is held or
    ended early, or the worst open finding; never information.
    """
    import time

    moment = time.time() if now is None else now
    varied = tuple(dict.fromkeys(name for view in views for name in view.varied))[:4]
    table = Table(
        ("run", "name", *varied, "state", "done", "steps", "return", "st/s", "ETA", "remark"),
        numbers=frozenset({"done", "steps", "return", "st/s", "ETA", *varied}),
    )
    for view in views:
        table.add(
            view.id,
            view.name,
            *(value_word(view.varied[name]) if name in view.varied else "" for name in varied),
            state_word(view),
            percent(share_done(view)),
            count(view.timesteps),
            measure(view.metrics.get(RETURN)),
            count(view.pace),
            time_left(view) if view.state not in OVER else DASH,
            _remark(view, moment),
        )
    return table


def crowded(snapshot: FleetSnapshot) -> Iterator[str]:
    """A sentence for each command that has a thread or more for every core while the machine is full with several runs:
    they wait for each other, and whatever the script measures of itself is many times slower.
    """
    host, running = snapshot.host, [view for view in snapshot.runs if view.state == "running"]
    if len(running) < 2 or (host.cpu_percent or 0.0) < _FULL_PERCENT:
        return
    for view in running:
        usage = view.usage
        if any(it.rule == "thread-contention" and it.state == "open" for it in view.findings):
            continue  # its own finding says more
        # Of a command no environments are known.
        if not view.n_envs and usage is not None and usage.threads - usage.processes >= host.cores:
            yield (
                f"{view.name} has {usage.threads} threads for {host.cores} cores, beside {len(running) - 1} more: "
                "if it is much slower than alone, launch it with --set run.threads=1"
            )


def _remark(view: RunView, now: float) -> str:
    if view.restart is not None:
        if view.restart.after == "request":
            return view.cause or "waits for its turn"
        if view.restart.after != "failure":
            return f"resumes by itself ({view.restart.number} of {view.restart.most}): {view.cause}"
        return f"restarts {due(view.restart.due_t - now)} ({view.restart.number} of {view.restart.most}): {view.cause}"
    # They come worst first.
    asking = [it.sentence for it in asks_for_action(view)]
    flags = ", ".join(flag for flag in view.flags if flag != "failed-duty")
    # A failed checkpoint has a finding that explains it; one of the two is enough.
    has_finding = any(it.rule == "checkpoint-age" and it.state == "open" for it in view.findings)
    failed = [it.sentence for it in view.failed_duties if not (has_finding and it.duty == CHECKPOINT)]
    if view.state == "ended" and view.rebooted:
        return f"{view.outcome} in the reboot{_way_on(view)}"
    if view.state == "ended" and view.outcome == "lost":
        return f"{view.cause or 'lost'}{_way_on(view)}"
    if view.state in OVER and view.outcome in ("failed", "lost"):
        return view.cause or ""
    if {"out-of-sight", "outlived"} & set(view.flags):
        return view.cause or flags
    if view.outcome == "finished" and view.total_timesteps and (share_done(view) or 0.0) < 1.0:
        # A callback ended it early: the remark says why it stopped at, say, 30 %.
        return view.cause or ""
    if view.state in OVER and _is_surprise(view):
        return view.cause or ""
    # One that starts waits in the queue of its engine, which may suspend one that has begun.
    held = view.cause if view.held is not None or view.state in _MAY_WAIT else ""
    gpu = f"GPU{view.placed.number}" if view.placed is not None and view.state not in OVER else ""
    node = f"on {view.node}" if view.node is not None and view.state not in OVER else ""
    return "; ".join(word for word in (flags, node, gpu, held, stuck_sentence(view), *asking[:1], *failed[:2]) if word)


def _way_on(view: RunView) -> str:
    """What `resume` makes of a run that nobody ended, before somebody finds out by what it has overwritten."""
    if "foreign" in view.flags:
        return ""
    if view.last_checkpoint is not None:
        return f"; `resume` goes on from {view.last_checkpoint}"
    return "; nothing was saved, `resume` begins anew" if "checkpoint" in view.can else "; `resume` starts it again"


def _is_surprise(view: RunView) -> bool:
    """Whether it ended as no person asked for, or took more with it than they may know."""
    if view.outcome in ("stopped", "killed"):
        # Whoever asked knows it; `scancel`, a guard or a shutdown is news.
        return view.cause not in _EXPECTED
    return view.outcome == "finished" and (view.cause or "").startswith("exit code 0;")


def provenance_lines(details: DetailsReply) -> Iterator[str]:
    """The run's name, and below it what is recorded; that nothing is, where nothing is."""
    yield details.view.name
    rows = list(provenance_rows(details))
    width = max(len(what) for what, _ in rows)
    for what, value in rows:
        yield f"  {what:<{width}}  {clean(value, _CHARACTERS)}"


def provenance_rows(details: DetailsReply) -> Iterator[tuple[str, str]]:
    """Name and value of each fact that is recorded; that nothing is, where nothing is."""
    known = details.provenance
    if known is None:
        yield "provenance", "not recorded (yet)"
        return
    yield "command", known.command or "not known"
    for repository in known.repositories:
        name = f"code of {clean(repository.name)}" if repository.name else "code"
        untracked = f", {repository.untracked} untracked" if repository.untracked else ""
        diff = f", changes in {repository.diff_file}" if repository.diff_file else ""
        commit = repository.commit or "no commit"
        yield name, f"{commit}, {repository.changed} changed files{untracked}{diff} ({repository.path})"
    yield "folder", known.cwd
    yield "Python", f"{known.python_version} ({known.python})"
    yield from known.machine.items()
    if known.launched_on:
        yield "launched on", known.launched_on
    if known.loaded is not None:
        yield "mission-tui", known.loaded.package
        for name, module in known.loaded.modules.items():
            yield f"loaded {clean(name, 80)}", f"{module.file} (sha256 {module.sha256[:12]})"
    yield "packages", " ".join(f"{name}=={version}" for name, version in known.packages.items())


def settings_table(details: DetailsReply) -> Table:
    """What the trainer recorded as effective, section by section as in `effective.toml`; no rows before it did."""
    reasons = _flat("", details.effective.get("reasons", {}))
    table = Table(("setting", "value", "why"))
    for section in SECTIONS:
        for key, value in _flat(f"{section}.", details.effective.get(section, {})).items():
            table.add(key, value, reasons.get(key, reasons.get(key.partition(".")[2], "")))
    return table


def _flat(prefix: str, values: dict[str, Any]) -> dict[str, str]:
    """Dotted keys and printed values; a table inside a table is one more dotted level."""
    flat: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= _flat(f"{prefix}{key}.", value)
        else:
            text = (
                ", ".join(part_words(item) or str(item) for item in value)
                if isinstance(value, list | tuple)
                else str(value)
            )
            flat[f"{prefix}{key}"] = text or DASH
    return flat
