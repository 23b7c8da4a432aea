"""The campaign: trains each preset in turn under our own supervisor with its own numbers, plays it, keeps what came.

`--seconds` is shared equally among the presets that are not done; each is then stopped with a checkpoint, played, and
goes on there the next time. A preset is done when its own budget is spent. On a big machine several train `--at-once`,
and `--set run.device=cuda` says where.
Run: python -m benchmarks.presets [--only fast swarm] [--seconds N] [--at-once N] [--folder FOLDER] [--page FILE]
[--report]
"""

from __future__ import annotations

import argparse
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from benchmarks.campaign import RUNS, alone, at_least_one, tell, views_in_time
from benchmarks.fleet.lab import Lab, kept
from benchmarks.fleet.shapes import as_options, spec_of
from benchmarks.presets.ends import ends_of
from benchmarks.presets.measured import (
    TRAININGS,
    Kept,
    Measured,
    keep,
    mission_digest,
    played_of,
    points_of,
    read_kept,
    shares,
    slug,
)
from benchmarks.presets.page import page
from benchmarks.results import facts_of_the_card, facts_of_the_machine
from mission_tui.errors import MissionError
from mission_tui.fleet.events.journal import AttemptEnded, FleetEvent
from mission_tui.fleet.events.metrics import TrainingStarted
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.specs.sizes import plan_batch
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.records.jsonl import read_all

SEED = 1
EPISODES = 100
END_EPISODES = 1000
LOOK_EVERY_S = 2.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, play, write; 1 when a preset could not go on."""
    asked = _parse(arguments)
    data = asked.page.with_suffix(".json")
    found = read_kept(data)
    failures: dict[str, str] = {}
    if not asked.report:
        try:
            failures = _carry_out(asked, found, data)
        except MissionError as error:
            print(error, file=sys.stderr)
            return error.exit_code
    for config in {spec_of_row(name).env.config or "standard" for name in found.presets}:
        if (digest := mission_digest(config)) not in found.ends:
            found.ends[digest] = ends_of(config, END_EPISODES)
    keep(found, data)
    from benchmarks.presets.pictures import draw

    pictures = draw(found, asked.page.with_suffix(""))
    asked.page.write_text(page(found, pictures), encoding="utf-8")
    for name, why in failures.items():
        print(f"given up: {name}: {why}", file=sys.stderr)
    return 1 if failures else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.presets", description="Train the shipped presets of MissionGym.")
    parser.add_argument(
        "--only", nargs="+", choices=TRAININGS, default=list(TRAININGS), help="these rows, in this order"
    )
    parser.add_argument("--page", type=Path, default=Path("docs/presets-measured.md"), help="its data lies beside it")
    parser.add_argument("--folder", type=Path, default=Path("build/presets"), help="where runs are kept")
    parser.add_argument("--seconds", type=float, default=math.inf, help="of training, shared among the presets")
    parser.add_argument("--at-once", type=at_least_one, default=1, help="so many train side by side")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="where: run.device=cuda")
    parser.add_argument("--report", action="store_true", help="train nothing, write the page again")
    return parser.parse_args(arguments)


def _carry_out(asked: argparse.Namespace, found: Kept, data: Path) -> dict[str, str]:
    """Train so many at once, each for its share of the time; why, by name, for each that could not go on."""
    asked.folder.mkdir(parents=True, exist_ok=True)
    names: Sequence[str] = asked.only
    words = tuple(asked.set)
    specs = {name: spec_of_row(name, words) for name in names}
    failures: dict[str, str] = {}
    left_s: float = asked.seconds
    with alone(asked.folder), kept(asked.folder / RUNS) as lab:
        for first in range(0, len(names), asked.at_once):
            begun, together = time.monotonic(), names[first : first + asked.at_once]
            share_s = left_s / math.ceil((len(names) - first) / asked.at_once)
            for name, (view, cores) in train(lab, together, words, share_s, failures).items():
                try:
                    measured = _measure(lab, view, specs[name], cores, found.presets.get(name))
                except subprocess.CalledProcessError as error:
                    failures[name] = _refused(error)
                    continue
                found.presets[name] = structs.replace(measured, words=words, beside=len(together) - 1)
                found.machine[name] = facts_of_the_machine() | facts_of_the_card(_device(lab, view))
                keep(found, data)
                tell(f"{name}: {view.timesteps or 0:,} steps, won {measured.won:.0%}")
            left_s = max(0.0, left_s - (time.monotonic() - begun))
    return failures


def _refused(error: subprocess.CalledProcessError) -> str:
    return f"`{error.cmd[3]}` refused with exit code {error.returncode}"


def _device(lab: Lab, view: RunView) -> str:
    """Where its last attempt trained, whatever it had asked for."""
    started = [row.device for row in lab.rows(view.id) if isinstance(row, TrainingStarted)]
    return started[-1] or "" if started else ""


def spec_of_row(row: str, words: Sequence[str] = ()) -> Spec:
    """The settings of a row of the page, with `--set` words beside its own."""
    return spec_of(row.split()[0], (*TRAININGS[row], *words))


def train(
    lab: Lab, rows: Sequence[str], words: Sequence[str], seconds: float, failures: dict[str, str]
) -> dict[str, tuple[RunView, list[float]]]:
    """Train them side by side for so long, or to the end; each run as it then stands, and the cores it kept busy, look
    by look. Why one could not go on is put into `failures`.
    """
    deadline = time.monotonic() + seconds
    runs: dict[str, tuple[str, int]] = {}
    for row in rows:
        try:
            runs[row] = _begun(lab, row, words)
        except subprocess.CalledProcessError as error:
            failures[row] = _refused(error)
    cores: dict[str, list[float]] = {row: [] for row in runs}
    while True:
        views = views_in_time(lab)
        live = []
        for row, (run, begun_from) in runs.items():
            view = views[run]
            if view.state not in OVER or view.attempt == begun_from:
                live.append(run)
            if view.usage is not None and view.state == "running":
                cores[row].append(view.usage.cpu_percent / 100)
        if live and time.monotonic() >= deadline:
            lab.stop(*live)
            live, views = [], views_in_time(lab)
        if not live:
            return {row: (views[run], cores[row]) for row, (run, _) in runs.items()}
        time.sleep(LOOK_EVERY_S)


def _begun(lab: Lab, row: str, words: Sequence[str]) -> tuple[str, int]:
    """Its run, launched or asked to go on, and the attempt that it had ended before that, -1 for none.

    One that was just asked to go on still stands as ended.
    """
    name = f"{slug(row)}-{mission_digest(spec_of_row(row, words).env.config or 'standard')}"
    views = sorted((it for it in views_in_time(lab).values() if it.name == name), key=lambda it: it.created_t)
    if not views:
        options = as_options((*TRAININGS[row], *words))
        (run,) = lab.launch(row.split()[0], *options, "--seed", str(SEED), "--name", name)
        return run, -1
    newest = views[-1]
    if newest.state not in OVER or newest.outcome == "finished":
        return newest.id, -1
    lab.cli("resume", newest.id)
    return newest.id, newest.attempt


def _measure(lab: Lab, view: RunView, spec: Spec, cores: Sequence[float], before: Measured | None) -> Measured:
    records = lab.rows(view.id)
    evaluation = lab.cli("evaluate", view.id, "--episodes", str(EPISODES))
    folder = lab.dir(view.id).evaluations
    files = folder.glob("*-periodic.json") if folder.is_dir() else ()
    rollout_share, evaluation_share = shares(
        records, {file.name.removesuffix("-periodic.json"): file.stat().st_mtime for file in files}
    )
    plan = plan_batch(spec)
    held = [it.memory_bytes for it in (before,) if it is not None and it.memory_bytes]
    peak = _peak_bytes(lab, view.id)
    return Measured(
        mission=mission_digest(spec.env.config or "standard"),
        seed=SEED,
        steps=view.timesteps or 0,
        budget=spec.run.total_timesteps or 0,
        updates=view.update or 0,
        attempts=view.attempt,
        trained_s=round(view.trained_s, 1),
        rollout_share=round(rollout_share, 4),
        evaluation_share=round(evaluation_share, 4),
        cores=round(statistics.fmean(cores), 2) if cores else (before.cores if before is not None else None),
        memory_bytes=max([*held, *([peak] if peak else [])], default=None),
        won=float(evaluation["won"]),
        outcomes=evaluation["outcomes"],
        gradient_steps=plan.gradient_steps,
        points=points_of(records),
        played=played_of(records),
    )


def _peak_bytes(lab: Lab, run: str) -> int | None:
    """The most that its processes held at once, over all attempts."""
    events = read_all(lab.dir(run).events, FleetEvent)[0]
    peaks = [event.peak.rss_bytes for event in events if isinstance(event, AttemptEnded) and event.peak is not None]
    return max(peaks, default=None)


if __name__ == "__main__":
    sys.exit(main())
