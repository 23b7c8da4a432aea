"""When a run was one of those that train, from what its two files say."""

from __future__ import annotations

from collections.abc import Iterator

from mission_tui.fleet.history.run import RunHistory
from mission_tui.fleet.marginal_gain.steady_periods import TrainingSpan

__all__ = ["training_spans_of"]

WARM_S = 5.0
"""The first update of an attempt, and what follows so soon, fills caches and starts threads: it is not timed."""


def training_spans_of(run: RunHistory) -> Iterator[TrainingSpan]:
    """When the newest attempt of `run` was one of those that train; from another setting on it is another run."""
    journal, spec = run.journal, run.spec
    silent = spec is not None and spec.run.command is not None and run.metrics.row is None
    if journal.attempt == 0 or journal.started_t is None or silent:
        return
    since: float | None = journal.started_t
    for t, ends, begins in _cuts(run):
        if ends and since is not None:
            yield _stay(run, since, t)
            since = None
        since = t if begins and since is None else since
    if since is not None:
        yield _stay(run, since, journal.ended_t)


def _cuts(run: RunHistory) -> list[tuple[float, bool, bool]]:
    """When a stay of the attempt ends, or another begins, or both at once."""
    held = [(t, cause in ("pause", "freeze"), cause in ("unpause", "thaw")) for t, cause in run.journal.breaks]
    started_t = run.journal.started_t or 0.0
    return sorted(held + [(each.t, True, True) for each in run.metrics.sets if each.t >= started_t])


def _stay(run: RunHistory, since: float, until: float | None) -> TrainingSpan:
    first_t = run.metrics.columns.first_t(since)
    return TrainingSpan(run.id, since, None if first_t is None else first_t + WARM_S, until, _kind(run))


def _kind(run: RunHistory) -> str:
    """Equal for runs of which a step costs the same; what merely learns otherwise is no difference."""
    spec = run.spec
    if spec is None:
        return run.id
    if spec.run.command is not None:
        return spec.preset
    ppo, how = spec.ppo, spec.run
    work = (ppo.algo, ppo.policy, ppo.n_steps, ppo.n_epochs, ppo.batch_size, ppo.net_arch, ppo.use_sde)
    return repr((spec.env, work, how.engine, how.device, how.precision, how.compile, how.threads))
