"""Episodes as SB3's `Monitor` writes them: one line each, after a comment with the start time and a header `r,l,t`.

Without a log of updates, rows are made of them: means over the last episodes, one row for so many steps. The comment
may be missing, as where somebody joined the files of several workers.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from mission_tui.fleet.events.metrics import Episodes, UpdateDone, mean_value, spoken
from mission_tui.fleet.health import Settings
from mission_tui.plain_files import open_named
from mission_tui.records.logs.log import LogError, TrainingLog, lines_of

SAMPLED = 256
WINDOW = 100
"""Episodes that SB3's `rollout/ep_rew_mean` is over."""
MOST_ROWS = 200_000
_ROWS = 500
"""Rows at most that a training is told in where nothing says how long its rollouts were."""
_HEAD_CHARACTERS = 4096
_EPISODE = re.compile(r"-?[\d.]+(e[-+]?\d+)?,\d+,[\d.]+(e[-+]?\d+)?\s*(,|$)")
_WORKER = re.compile(r"(\d+\.)?monitor\.csv")
LONGEST = 2**40
"""More steps than any episode has: such a line is damage, and their sum has to stay a number that can be written."""


class Ended(Struct, frozen=True, order=True):
    """An episode: unix time of its end, return, steps, and the steps of all episodes up to it, itself included.

    `after_s` are the seconds from its monitor's beginning to its end.
    """

    t: float
    r: float
    length: int
    steps: int = 0
    after_s: float = 0.0


def read_monitors(paths: Iterable[Path]) -> list[Ended]:
    """The episodes in all files, in the order of their ends; lines that are none, or not whole, are passed over.

    Raises `OSError`, and `LogError` for what no log has.
    """
    episodes = sorted(episode for path in paths for episode in _read(path))
    steps = 0
    counted: list[Ended] = []
    for episode in episodes:
        steps += episode.length
        counted.append(replace(episode, steps=steps))
    return counted


def sample_of(ended: Sequence[Ended]) -> Episodes:
    """How many there are, and of the newest their returns and lengths."""
    newest = ended[-SAMPLED:]
    return Episodes(n=len(ended), r=tuple(spoken(it.r) for it in newest), l=tuple(it.length for it in newest))


def monitor_files(path: Path) -> list[Path]:
    """The monitors that `path` means: itself, or those of a folder's workers; none where it is something else."""
    if path.is_dir():
        return sorted(it for it in path.iterdir() if _WORKER.fullmatch(it.name) and it.is_file())
    if not path.is_file():
        return []
    try:
        with os.fdopen(open_named(path), encoding="utf-8-sig", errors="replace") as file:
            head = [file.readline(_HEAD_CHARACTERS) for _ in range(2)]
    except OSError:
        return []
    return [path] if _columns(head, path)[0] else []


def read_episodes(path: Path, monitors: Sequence[Path]) -> TrainingLog:
    """The log that the episodes in `monitors` of folder or file `path` make: returns and lengths, and nothing else.

    Raises `LogError` where no episode has ended, `OSError`.
    """
    episodes = read_monitors(monitors)
    total = episodes[-1].steps if episodes else 0
    if not total:
        strange = next((it for it in monitors if it.stat().st_size and not monitor_files(it)), None)
        if strange is not None:
            raise LogError(f"{strange}: does not begin as a monitor does, with columns r, l and t")
        raise LogError(f"{path}: has no episode yet")
    steps_a_row = math.ceil(total / min(_ROWS, len(episodes)))
    updates = tuple(updates_of_episodes(episodes, steps_a_row, WINDOW))
    return TrainingLog(path, updates, Settings(total_timesteps=total), log_interval=None)


def _columns(lines: Sequence[str], path: Path) -> tuple[list[str], int]:
    """The names of a monitor's columns, and how many lines come before its episodes; no names where it is none.

    SB3 writes neither comment nor header with `override_existing=False`, also where there was no file.
    """
    place = 1 if lines and lines[0].startswith("#") else 0
    names = lines[place].strip().split(",") if len(lines) > place else []
    if {"r", "l", "t"} <= set(names):
        return names, place + 1
    is_bare = place == 0 and path.name.endswith("monitor.csv") and _EPISODE.match(lines[0] if lines else "")
    return (["r", "l", "t"], 0) if is_bare else ([], 0)


def _read(path: Path) -> list[Ended]:
    with os.fdopen(open_named(path), encoding="utf-8-sig", errors="replace") as file:
        lines = list(lines_of(file, path))
    started = _started(lines[0] if lines else "")
    columns, first = _columns(lines[:2], path)
    written = first == 0 or lines[0].startswith("#")
    if not columns:
        return []
    places = [columns.index(name) for name in ("t", "r", "l")]
    episodes: list[Ended] = []
    before = shift = 0.0
    for line in lines[first:]:
        if not line.endswith("\n"):
            break  # it is not whole yet
        if line.startswith("#"):
            started, before, shift = _started(line), 0.0, 0.0
            continue
        cells = line.strip().split(",")
        try:
            t, r, length = (float(cells[place]) for place in places)
        except (ValueError, IndexError):
            continue
        if math.isfinite(started + t) and 0 <= length <= LONGEST:
            # Appended to, a monitor counts its seconds anew and says nothing of it. Files of workers that were joined
            # without their comments go back as well, and there the seconds are right.
            if written and t + shift < before:
                shift = before - t
            before = t = t + shift
            episodes.append(Ended(started + t, r, int(length), after_s=t))
    return episodes


def _started(head: str) -> float:
    try:
        started = float(json.loads(head.removeprefix("#"))["t_start"])
        return started if math.isfinite(started) else 0.0
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return 0.0


def moment_of(episodes: Sequence[Ended], at: int, steps: int) -> float:
    """When the training stood at `steps`, unix time, of which the first `at` episodes had ended; 0 without a clock.

    On the line between two ends: taken for updates, they would make long pauses of long episodes.
    """
    if at == len(episodes):
        return episodes[-1].t if episodes else 0.0
    later = episodes[at]
    t, before = (episodes[at - 1].t, episodes[at - 1].steps) if at else (later.t - later.after_s, 0)
    return t + (later.t - t) * max(0.0, min(1.0, (steps - before) / max(1, later.steps - before)))


def pace_of(episodes: Sequence[Ended]) -> float:
    """Steps per second from the monitors' beginning to the last episode's end; 0 where there is no clock.

    Not from one end to another: episodes of equal lengths end together, at the same moment.
    """
    if not episodes or episodes[-1].after_s <= 0.0:
        return 0.0
    return episodes[-1].steps / episodes[-1].after_s


def updates_of_episodes(episodes: Sequence[Ended], rollout: int, window: int) -> Iterator[UpdateDone]:
    total = episodes[-1].steps if episodes else 0
    if total > rollout * MOST_ROWS:
        raise LogError(
            f"the monitors tell of {total:,} steps, which are {total // rollout:,} updates of {rollout:,}: say the "
            "real sizes with --set env.n_envs and --set ppo.n_steps"
        )
    at, pace = 0, pace_of(episodes)
    for number in range(1, math.ceil(total / rollout) + 1):
        begin, steps = at, min(number * rollout, total)
        while at < len(episodes) and episodes[at].steps <= steps:
            at += 1
        recent = episodes[max(0, at - window) : at]
        t = moment_of(episodes, at, steps)
        means = {"rollout/ep_rew_mean": mean_value(it.r for it in recent)} if recent else {}
        means |= {"rollout/ep_len_mean": mean_value(it.length for it in recent)} if recent else {}
        yield UpdateDone(
            seq=number,
            attempt=1,
            update=number,
            timesteps=steps,
            t=t,
            rollout_s=0.0,
            update_s=0.0,
            steps_per_s=pace,
            metrics={tag: spoken(value) for tag, value in means.items()},
            episodes=sample_of(episodes[begin:at]),
        )
