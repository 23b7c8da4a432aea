"""What a search does: its plan, the run that carries it out, and the runs of a trial.

The plan is in the spec of the driver, a command run like any other, as its `run.values`: sealed with it, shown with it,
and changed by a resume. The driver and the runs that it launches are one group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct, structs

from mission_tui.errors import DamagedError
from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.launch_plan import LONGEST_NAME, repeat_seed
from mission_tui.fleet.search.result import driver_launch
from mission_tui.fleet.search.space import Parameter, space_of
from mission_tui.fleet.specs.preset import as_tables, change, from_tables
from mission_tui.fleet.specs.spec import DRIVER, KeepSpec, LaunchItem, RestartKeep, RunSpec, Spec
from mission_tui.fleet.specs.thresholds import HangLimits, HealthKeep

Pruning = Literal["none", "median", "hyperband"]
MODULE = "mission_tui.search"
MOST_TRIALS = 10_000
_FRESH = 1000
"""So far from the seeds of the trials begin those of the last comparison: nothing was chosen by them."""
_RESTARTS = 5


class SearchPlan(Struct, frozen=True, kw_only=True):
    """Up to `trials` settings of `base`, each trained with `seeds` seeds and judged by their mean `metric` at the end.

    At most `at_once` of its runs live at a time. The winner and `base` are trained again with `confirm` fresh seeds.
    `params` and `space` are the words of the command.
    """

    base: Spec
    params: tuple[str, ...]
    space: str = ""
    trials: Annotated[int, Meta(ge=1, le=MOST_TRIALS)] = 20
    at_once: Annotated[int, Meta(ge=1, le=4096)] = 1
    seeds: Annotated[int, Meta(ge=1, le=64)] = 1
    metric: str = RETURN
    minimize: bool = False
    prune: Pruning = "none"
    confirm: Annotated[int, Meta(ge=0, le=64)] = 5

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Raises as `space_of`."""
        return space_of(self.params, self.space, self.base)

    @property
    def trial_seeds(self) -> tuple[int, ...]:
        """The seeds of every trial: the same, so that settings meet the same luck."""
        return tuple(repeat_seed(self.base.run.seed, number) for number in range(1, self.seeds + 1))

    @property
    def fresh_seeds(self) -> tuple[int, ...]:
        """Those of the last comparison."""
        return tuple(repeat_seed(self.base.run.seed, _FRESH + number) for number in range(1, self.confirm + 1))


_CHANGEABLE = ("trials", "at_once", "confirm")
"""What `--continue` may give anew: nothing that makes old trials another question."""


def driver_item(plan: SearchPlan, group: str, words: Sequence[str]) -> LaunchItem:
    """The run that carries `plan` out for `group`; `words` start it."""
    facts = {name: value for name, value in structs.asdict(plan).items() if name not in ("base", *_CHANGEABLE)}
    values = {name: str(getattr(plan, name)) for name in _CHANGEABLE} | {
        "group": group,
        "plan": msgspec.json.encode(facts | {"base": as_tables(plan.base)}).decode(),
    }
    shown = tuple(word for name in _CHANGEABLE for word in (f"--{name.replace('_', '-')}", f"{{{name}}}"))
    spec = Spec(
        preset=f"{DRIVER}{plan.base.preset}",
        description=(
            f"search of {plan.base.preset}: {plan.trials} trials over "
            f"{', '.join(each.key for each in plan.parameters)}, at most {plan.at_once} at once"
        ),
        run=RunSpec(command=(*words, *shown), resume_command=(*words, *shown), values=values, threads=1),
        # What is done is in the study, so beginning again is going on. It reports when a run has ended, which may take
        # days, several at once: how long it is silent says nothing.
        keep=KeepSpec(
            restart=RestartKeep(most=_RESTARTS),
            on_reboot="resume",
            health=HealthKeep(hang=HangLimits(act="off")),
        ),
    )
    return driver_launch(spec)


def plan_of(driver: Spec, source: str) -> tuple[SearchPlan, str]:
    """The plan that a driver's spec holds, and the group of its runs. Raises `DamagedError` where it holds none."""
    try:
        facts = msgspec.json.decode(driver.run.values["plan"])
        changed = {name: int(driver.run.values[name]) for name in _CHANGEABLE}
        base = from_tables(facts.pop("base"), f"{source}: run.values.plan")
        plan = msgspec.convert(facts | changed | {"base": _NO_SPEC}, SearchPlan)
        return structs.replace(plan, base=base), driver.run.values["group"]
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise DamagedError(f"{source}: run.values hold no search: {error}") from error


def changed_values(trials: int | None, at_once: int | None, confirm: int | None) -> tuple[str, ...]:
    """The `--set` words for a driver that goes on with other numbers; None leaves one as it was."""
    asked = {"trials": trials, "at_once": at_once, "confirm": confirm}
    return tuple(f"run.values.{name}={value}" for name, value in asked.items() if value is not None)


def items_of(
    plan: SearchPlan, group: str, stem: str, words: Mapping[str, str], seeds: Sequence[int]
) -> list[LaunchItem]:
    """The runs of one setting, a seed each, called by `stem`. Raises `PresetError` for settings that contradict."""
    named = len(seeds) > 1
    changed = change(plan.base, [f"{key}={word}" for key, word in words.items()]) if words else plan.base
    # The driver is one of the group.
    limits = structs.replace(changed.keep.limits, group_runs=plan.at_once + 1)
    keep = structs.replace(changed.keep, limits=limits)
    return [
        LaunchItem(
            spec=structs.replace(changed, keep=keep, run=structs.replace(changed.run, seed=seed)),
            name=member_name(group, stem, seed if named else None),
            group=group,
        )
        for seed in seeds
    ]


def member_name(group: str, stem: str, seed: int | None) -> str:
    """`cartpole-3f9a-7` or `cartpole-3f9a-7-s2`."""
    tail = f"-{stem}" if seed is None else f"-{stem}-s{seed}"
    return f"{group[: LONGEST_NAME - len(tail)]}{tail}"


def group_name(name: str | None, preset: str, tag: str) -> str:
    """What the search is called: room is left for what its runs add."""
    room = LONGEST_NAME - len("-default-s4294967295")
    return (name or f"{preset[: room - 1 - len(tag)]}-{tag}")[:room]


_NO_SPEC = msgspec.to_builtins(Spec(preset=""))
