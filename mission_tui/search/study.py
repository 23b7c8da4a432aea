"""The study of a search: Optuna's own, in the journal file `study.log` of the driver's run.

Every step is on disk before the next one is made, so whoever begins again knows each trial: what it was to be, which
runs it has, what it came to. Nobody but the driver writes, and the run's lease lets only one of it live.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mission_tui.errors import DamagedError, UsageError, install_words
from mission_tui.fleet.search import SearchTrial, TrialState
from mission_tui.plain_files import open_to_lock
from mission_tui.records.atomic import storing
from mission_tui.search.plan import Parameter, Pruning, SearchPlan, Value, default_point

if TYPE_CHECKING:
    import optuna

RUNGS = 50
"""A trial's budget has so many steps at which it is compared with others, wherever its updates fall."""
_STARTUP_TRIALS = 5
_WARMUP_RUNGS = RUNGS // 10
_FEWEST_THERE = 3
_REDUCTION = 3
_RUNS, _SETTINGS, _WHY, _PRUNED_AT, _CONFIRM = "runs", "settings", "why", "pruned_at", "confirm"


def check_installed() -> None:
    """Raise `UsageError` with the install line where Optuna is missing."""
    if find_spec("optuna") is None:  # looked for, not loaded: the screen asks too
        raise UsageError(f"search needs Optuna, which is not installed; {install_words('search')}")


def mend(path: Path) -> None:
    """Cut off the last line of a study where a crash left half of it, and the lock of a driver that is dead.

    Raises `StorageError` for a link, or a second name of a file: Optuna would write through it.
    """
    with storing(path, "mend"):
        path.with_name(f"{path.name}.lock").unlink(missing_ok=True)
        with os.fdopen(open_to_lock(path), "r+b") as file:
            raw = file.read()
            file.truncate(raw.rfind(b"\n") + 1)


class Study:
    """The trials of one search."""

    def __init__(self, path: Path, group: str, plan: SearchPlan, space: Sequence[Parameter]) -> None:
        """Open the study at `path`, or begin it with the preset's own settings. Raises `DamagedError`."""
        import optuna
        from optuna.storages.journal import JournalFileBackend, JournalStorage

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._optuna, self._plan = optuna, plan
        self._distributions = {each.drawn: _distribution(each) for each in space}
        mend(path)
        fresh = not path.exists() or path.stat().st_size == 0
        try:
            storage = JournalStorage(JournalFileBackend(str(path)))
            self._study = optuna.create_study(
                storage=storage,
                study_name=group,
                direction="minimize" if plan.minimize else "maximize",
                load_if_exists=True,
            )
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedError(f"{path} is no study of Optuna: {type(error).__name__}: {error}") from error
        trials = self._study.get_trials(deepcopy=False)
        # With the same seed after each start the same random settings would be drawn again.
        self._study.sampler = optuna.samplers.TPESampler(seed=(plan.base.run.seed or 0) + len(trials))
        self._study.pruner = _pruner(optuna, plan.prune)
        if fresh and (own := default_point(space, plan.base)) is not None:
            self._study.enqueue_trial(own)

    def ask(self) -> tuple[int, dict[str, Value]]:
        """The number of a new trial, and what was drawn for it by the parameters' names."""
        trial = self._study.ask(self._distributions)
        return trial.number, dict(trial.params)

    def drawn(self, number: int) -> dict[str, Value]:
        """What was drawn for trial `number`."""
        return dict(self._frozen(number).params)

    def begin(self, number: int, settings: Mapping[str, str]) -> None:
        """What trial `number` is: `settings` as `--set` takes them."""
        self._trial(number).set_user_attr(_SETTINGS, dict(settings))

    def note_runs(self, number: int, runs: Sequence[str]) -> None:
        """The runs (ids) of trial `number`."""
        self._trial(number).set_user_attr(_RUNS, list(runs))

    def report(self, number: int, values: Mapping[int, float]) -> bool:
        """Say what trial `number` came to at further rungs; whether it should be pruned."""
        trial = self._trial(number)
        prune = False
        for rung, value in sorted(values.items()):
            trial.report(value, rung)
            prune = prune or (self._plan.prune != "none" and trial.should_prune())
        return prune

    def last_rung(self, number: int) -> int:
        """The last rung of which a value is known; 0 before the first."""
        return max(self._frozen(number).intermediate_values, default=0)

    def note_pruned(self, number: int, at: float) -> None:
        """Trial `number` is to be stopped at the share `at` of its budget."""
        self._trial(number).set_user_attr(_PRUNED_AT, at)

    def pruned_at(self, number: int) -> float | None:
        """The share of its budget at which it was decided to stop trial `number`."""
        at: float | None = self._frozen(number).user_attrs.get(_PRUNED_AT)
        return at

    def finish(self, number: int, value: float) -> None:
        """Trial `number` came to `value`."""
        self._study.tell(number, value)

    def prune(self, number: int, why: str) -> None:
        """Trial `number` was stopped early, or its numbers became nan: worse than those that finished."""
        self._trial(number).set_user_attr(_WHY, why)
        self._study.tell(number, state=self._optuna.trial.TrialState.PRUNED)

    def fail(self, number: int, why: str) -> None:
        """Trial `number` says nothing of its settings."""
        self._trial(number).set_user_attr(_WHY, why)
        self._study.tell(number, state=self._optuna.trial.TrialState.FAIL)

    @property
    def confirmation(self) -> dict[str, Any]:
        """What was noted of the last comparison; empty before it."""
        return dict(self._study.user_attrs.get(_CONFIRM, {}))

    def note_confirmation(self, facts: Mapping[str, Any]) -> None:
        """Note the runs of the last comparison."""
        self._study.set_user_attr(_CONFIRM, dict(facts))

    def trials(self) -> tuple[SearchTrial, ...]:
        """Every trial that was begun."""
        return tuple(self._shown())

    def runs_of(self, number: int) -> list[str]:
        """The runs (ids) of trial `number`, empty before they were launched."""
        return list(self._frozen(number).user_attrs.get(_RUNS, ()))

    def importance(self) -> dict[str, float]:
        """How much each setting mattered for being among the best (PED-ANOVA), adding up to 1; empty where too few
        trials have finished to say it.
        """
        complete = self._study.get_trials(deepcopy=False, states=(self._optuna.trial.TrialState.COMPLETE,))
        if len({trial.value for trial in complete}) < _FEWEST_THERE or len(self._distributions) < 2:
            return {}
        try:
            found = self._optuna.importance.get_param_importances(self._study)
        except (ValueError, RuntimeError):
            return {}
        return {name.removeprefix("1 - "): share for name, share in found.items() if math.isfinite(share)}

    def _shown(self) -> Iterator[SearchTrial]:
        states: dict[str, TrialState] = {
            "RUNNING": "running",
            "COMPLETE": "finished",
            "PRUNED": "pruned",
            "FAIL": "failed",
        }
        for trial in self._study.get_trials(deepcopy=False):
            if trial.state.name not in states:
                continue  # enqueued, and not begun
            noted = trial.user_attrs
            last = trial.intermediate_values.get(max(trial.intermediate_values, default=0))
            value = trial.value if trial.value is not None else last
            yield SearchTrial(
                number=trial.number,
                state=states[trial.state.name],
                settings=dict(noted.get(_SETTINGS, {})),
                runs=tuple(noted.get(_RUNS, ())),
                value=value if value is not None and math.isfinite(value) else None,
                at=noted.get(_PRUNED_AT) if trial.state.name == "PRUNED" else None,
                why=str(noted.get(_WHY, "")),
            )

    def _frozen(self, number: int) -> optuna.trial.FrozenTrial:
        return self._study.get_trials(deepcopy=False)[number]

    def _trial(self, number: int) -> optuna.trial.Trial:
        return self._optuna.trial.Trial(self._study, self._frozen(number)._trial_id)


def _distribution(parameter: Parameter) -> optuna.distributions.BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    log = parameter.scale != "linear"
    match parameter.kind:
        case "choice":
            return CategoricalDistribution(parameter.choices)
        case "int":
            return IntDistribution(int(parameter.low), int(parameter.high), log=log)
        case "float":
            return FloatDistribution(parameter.low, parameter.high, log=log)


def _pruner(optuna: Any, prune: Pruning) -> optuna.pruners.BasePruner:
    match prune:
        case "none":
            return optuna.pruners.NopPruner()
        case "median":
            return optuna.pruners.MedianPruner(
                n_startup_trials=_STARTUP_TRIALS, n_warmup_steps=_WARMUP_RUNGS, n_min_trials=_FEWEST_THERE
            )
        case "hyperband":
            return optuna.pruners.HyperbandPruner(
                min_resource=_WARMUP_RUNGS, max_resource=RUNGS, reduction_factor=_REDUCTION
            )
