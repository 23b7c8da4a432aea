"""The logs of an SB3 run as records of ours: the table's updates with the episodes of its monitors, or these alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean

from msgspec import structs

from mission_tui.fleet.history.metrics import UpdateDone, spoken
from mission_tui.records.logs.event_files import read_events
from mission_tui.records.logs.log import LogError
from mission_tui.records.logs.monitor import Ended, read_monitors, sample_of
from mission_tui.records.logs.read import read_log
from mission_tui.records.sb3_run.folder import Sb3Folder

__all__ = ["rows_of", "updates_in_table"]

WINDOW = 100
"""Episodes that SB3's `rollout/ep_rew_mean` is over."""

MOST_ROWS = 200_000


def updates_in_table(folder: Sb3Folder) -> tuple[tuple[UpdateDone, ...], tuple[str, ...]]:
    """The updates of the log with a row each, all of one attempt, and what of it could not be used.

    Nothing where there is no such log. Raises `LogError` naming the file.
    """
    if folder.table is None and not folder.events:
        return (), ()
    log = read_log(folder.table) if folder.table is not None else read_events(folder.path, folder.events)
    return tuple(_counted_on(log.updates_done)), log.damage


def rows_of(
    folder: Sb3Folder, table: Sequence[UpdateDone], rollout: int, window: int = WINDOW
) -> tuple[UpdateDone, ...]:
    """The run's updates: `table` where it has any, else one for every `rollout` steps of the monitors' episodes, with
    means over the last `window` of them.

    Times that no log says are 0; where speeds are not known by update, the monitors' average stands for each. Raises
    `LogError` when there is no row, `OSError`.
    """
    episodes = read_monitors(folder.monitors)
    rows = tuple(_with_episodes(table, episodes)) if table else tuple(_of_monitors(episodes, rollout, window))
    if not rows:
        raise LogError(f"{folder.path}: tells of no update and no episode yet")
    return rows


def _counted_on(updates: Sequence[UpdateDone]) -> Iterator[UpdateDone]:
    """Steps that begin anew, because `learn` was called again, are counted on."""
    before = last = 0
    for number, update in enumerate(updates, 1):
        if update.timesteps + before < last:
            before = last
        last = update.timesteps + before
        yield structs.replace(update, seq=number, attempt=1, timesteps=last)


def _with_episodes(table: Sequence[UpdateDone], episodes: Sequence[Ended]) -> Iterator[UpdateDone]:
    at, pace = 0, _pace_of(episodes)
    for update in table:
        begin = at
        while at < len(episodes) and episodes[at].steps <= update.timesteps:
            at += 1
        t = update.t or (episodes[at - 1].t if at else 0.0)
        ended = sample_of(episodes[begin:at]) if at > begin else update.episodes
        yield structs.replace(update, t=t, episodes=ended, steps_per_s=update.steps_per_s or pace)


def _pace_of(episodes: Sequence[Ended]) -> float:
    """Steps per second from the first episode's end to the last one's; 0 where there is no clock."""
    if not episodes or episodes[-1].t <= episodes[0].t:
        return 0.0
    return (episodes[-1].steps - episodes[0].steps) / (episodes[-1].t - episodes[0].t)


def _of_monitors(episodes: Sequence[Ended], rollout: int, window: int) -> Iterator[UpdateDone]:
    total = episodes[-1].steps if episodes else 0
    if total > rollout * MOST_ROWS:
        raise LogError(
            f"the monitors tell of {total:,} steps, which are {total // rollout:,} updates of {rollout:,}: say the "
            "real sizes with --set env.n_envs and --set ppo.n_steps"
        )
    at, pace = 0, _pace_of(episodes)
    for number in range(1, math.ceil(total / rollout) + 1):
        begin, steps = at, min(number * rollout, total)
        while at < len(episodes) and episodes[at].steps <= steps:
            at += 1
        recent = episodes[max(0, at - window) : at]
        t = episodes[at - 1].t if at else 0.0
        means = {"rollout/ep_rew_mean": fmean(it.r for it in recent)} if recent else {}
        means |= {"rollout/ep_len_mean": fmean(it.length for it in recent)} if recent else {}
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
