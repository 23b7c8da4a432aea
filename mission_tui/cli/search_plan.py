"""The plan of a search from what was typed: as options of `search`, or as lines of the launch form."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from mission_tui.errors import UsageError, nearest

if TYPE_CHECKING:
    from mission_tui.fleet.search.plan import Pruning, SearchPlan
    from mission_tui.fleet.specs.spec import Spec

_ELSEWHERE_AT_ONCE = 4
"""So many trials at a time where another machine carries them out."""
_TABLE, _VALUES = "search.", "run.values."


def search_plan(
    base: Spec,
    params: tuple[str, ...],
    space: str,
    metric: str,
    numbers: tuple[int, int | None, int, int],
    *,
    minimize: bool,
    prune: Pruning,
) -> SearchPlan:
    """The whole plan, checked. Raises `UsageError` and `PresetError`."""
    from mission_tui.fleet.capacity.machine import busy_cores
    from mission_tui.fleet.search.plan import SearchPlan
    from mission_tui.fleet.search.space import setting_of
    from mission_tui.fleet.specs.spec import LAUNCHERS

    metric = _checked_metric(base, metric)
    trials, at_once, seeds, confirm = numbers
    if at_once is None:
        cores = len(os.sched_getaffinity(0))
        here = max(1, cores // busy_cores(base, cores))
        at_once = here if base.run.launcher == LAUNCHERS[0] else _ELSEWHERE_AT_ONCE
    plan = SearchPlan(
        base=base,
        params=params,
        space=space,
        trials=trials,
        at_once=at_once,
        seeds=seeds,
        metric=metric,
        minimize=minimize,
        prune=prune,
        confirm=confirm,
    )
    lacking = [
        each.key for each in plan.parameters if each.key.startswith(_VALUES) and setting_of(base, each.key) is None
    ]
    # A command that has no value of its own for a placeholder is nothing that a winner could be held against.
    return msgspec.structs.replace(plan, confirm=0) if lacking else plan


def _checked_metric(base: Spec, metric: str) -> str:
    """The tag of the metric; `eval/success` is short for one. Raises `UsageError` for what no run of `base` reports."""
    from difflib import get_close_matches

    from mission_tui.fleet.events.metrics import EVAL_RETURN, EVAL_SUCCESS
    from mission_tui.present.numbers import TITLES

    if base.run.command is not None:
        return metric
    if metric == "eval/success":
        metric = EVAL_SUCCESS
    played = (EVAL_RETURN, EVAL_SUCCESS)
    if metric.startswith("eval/") and metric not in played:
        raise UsageError(f"--metric {metric}: evaluations give {' and '.join(played)}{nearest(metric, played)}")
    if metric in played and base.evaluate.every is None:
        raise UsageError(f"--metric {metric} needs evaluations: add --set evaluate.every=10000")
    # An environment of the person's own may report more; what is one letter off is a slip.
    if metric not in TITLES and (near := get_close_matches(metric, TITLES, n=1, cutoff=0.9)):
        raise UsageError(f"--metric {metric} is reported by no training of a preset; did you mean '{near[0]}'?")
    return metric


class _Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The lines `search.trials=40` of a form."""

    trials: int = 20
    at_once: int | None = None
    seeds: int = 1
    confirm: int = 5
    metric: str = "rollout/ep_rew_mean"
    minimize: bool = False
    prune: Literal["none", "median", "hyperband"] = "none"
    space: str = ""


def typed_search(words: Sequence[str], base_of: Callable[[tuple[str, ...]], Spec]) -> Spec | None:
    """The driver of the search that lines of the form ask for: a range such as `ppo.n_epochs=4..20`, or a line of the
    table `search`, makes a search of a launch. None where there is neither.

    In a search lines with several values are choices. `base_of` resolves the other lines. Raises as `search_plan`.
    """
    pairs = [(key.strip(), text.strip()) for key, _, text in (word.partition("=") for word in words)]
    if not any(key.startswith(_TABLE) or ".." in text for key, text in pairs):
        return None
    from mission_tui.fleet.launch_plan import repeat_seed
    from mission_tui.fleet.search.plan import MODULE, driver_item, group_name
    from mission_tui.fleet.specs.assignment import alternatives
    from mission_tui.run_module import module_words
    from mission_tui.search.study import check_installed

    check_installed()
    options = _options({key.removeprefix(_TABLE): text for key, text in pairs if key.startswith(_TABLE)})
    others = [(key, text) for key, text in pairs if not key.startswith(_TABLE)]
    params = [f"{key}={text}" for key, text in others if key != "run.seed" and _varies(text)]
    seeds = next((alternatives(text) for key, text in others if key == "run.seed"), [])
    fixed = [f"{key}={text}" for key, text in others if key != "run.seed" and not _varies(text)]
    base = base_of((*fixed, *(f"run.seed={seed}" for seed in seeds[:1])))
    if seeds != [str(repeat_seed(base.run.seed, number)) for number in range(1, len(seeds) + 1)]:
        raise UsageError("the seeds of a search count up from the first: give their number in the field seeds")
    numbers = (options.trials, options.at_once, max(options.seeds, len(seeds)), options.confirm)
    plan = search_plan(
        base, tuple(params), options.space, options.metric, numbers, minimize=options.minimize, prune=options.prune
    )
    group = group_name(None, base.preset, secrets.token_hex(2))
    return driver_item(plan, group, module_words(MODULE)).spec


def _varies(text: str) -> bool:
    from mission_tui.fleet.specs.assignment import alternatives

    return ".." in text or len(alternatives(text)) > 1


def _options(lines: dict[str, str]) -> _Options:
    """Raises `UsageError` naming the line."""
    for name in lines:
        if name not in _Options.__struct_fields__:
            names = _Options.__struct_fields__
            raise UsageError(
                f"{_TABLE}{name} is no setting of a search{nearest(name, names) or ': ' + ', '.join(names)}"
            )
    try:
        return msgspec.convert(lines, _Options, strict=False)
    except msgspec.ValidationError as error:
        name = str(error).rpartition("$.")[2].rstrip("`")
        raise UsageError(f"{_TABLE}{name} = {lines.get(name, '')}: {str(error).partition(' - ')[0]}") from None
