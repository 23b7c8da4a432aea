"""What a search does: its plan, the space of settings that vary, the run that carries it out, and the runs of a trial.

The plan is in the spec of the driver, a command run like any other, as its `run.values`: sealed with it, shown with it,
and changed by a resume. The driver and the runs that it launches are one group.

A parameter is written as `--param` takes it: `ppo.learning_rate=log:1e-5..1e-2`, `ppo.n_epochs=4..20` (whole numbers
where the setting is one), `ppo.clip_range=0.1,0.2,0.3`, and `ppo.gamma=1-log:1e-4..0.03` for what is drawn by its
distance from 1. Both ends, and each of several values, must fit the setting before anything starts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, structs

from mission_tui.errors import DamagedError, UsageError, nearest
from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.launch_plan import LONGEST_NAME, repeat_seed
from mission_tui.fleet.search import driver_launch
from mission_tui.fleet.specs.algorithm import learning_table
from mission_tui.fleet.specs.assignment import Assignment, alternatives, expand
from mission_tui.fleet.specs.preset import as_tables, change, draft_assigned, from_tables
from mission_tui.fleet.specs.quantity import format_quantity, parse_real, parse_whole
from mission_tui.fleet.specs.sb3_algorithms import OTHERS
from mission_tui.fleet.specs.schema import plain_key
from mission_tui.fleet.specs.spec import DRIVER, KeepSpec, LaunchItem, RestartKeep, RunSpec, Spec, rollout_size
from mission_tui.fleet.specs.thresholds import HangLimits, HealthKeep

Kind = Literal["int", "float", "choice"]
Scale = Literal["linear", "log", "1-log"]
Value = float | str
"""What the sampler draws: a number, or one of the words of a choice."""

_SCALES: Mapping[str, Scale] = {"log": "log", "1-log": "1-log"}
_PRECISION = ".6g"
_BATCH = "ppo.batch_size"
_TEXTS = ("run.values.", "run.env.")
"""What a command is given is text: only the words of a range say whether it means whole numbers."""
_NOT_SEARCHED = {
    "run.seed": "seeds do not make a setting better: --seeds K judges each trial by K of them",
    "run.values.seed": "seeds do not make a setting better: --seeds K judges each trial by K of them",
}

# The space of the RL zoo for PPO (DLR-RM/rl-baselines3-zoo, rl_zoo3/hyperparams_opt.py, `sample_ppo_params`, as of its
# release 2.7), in our words. There sizes are drawn as powers of two, gamma and lambda by their distance from 1.
_ZOO_PPO = (
    f"{_BATCH}={','.join(str(2**power) for power in range(2, 11))}",
    f"ppo.n_steps={','.join(str(2**power) for power in range(5, 13))}",
    "ppo.gamma=1-log:0.0001..0.03",
    "ppo.gae_lambda=1-log:0.0001..0.1",
    "ppo.learning_rate=log:1e-5..0.002",
    "ppo.ent_coef=log:1e-8..0.1",
    "ppo.clip_range=0.1,0.2,0.3,0.4",
    "ppo.n_epochs=1,5,10,20",
    "ppo.max_grad_norm=0.3..2",
    "ppo.net_arch={pi=[64],vf=[64]},{pi=[64,64],vf=[64,64]},{pi=[256,256],vf=[256,256]}",
    "ppo.policy_kwargs.activation_fn=Tanh,ReLU",
)
SPACES: Mapping[str, tuple[str, ...]] = {"zoo": _ZOO_PPO}
"""Spaces by name, for `--space`."""


class Parameter(Struct, frozen=True, kw_only=True):
    """One setting that varies: numbers from `low` to `high` on a `scale`, or one of the words `choices`."""

    key: str
    kind: Kind
    low: float = 0.0
    high: float = 0.0
    scale: Scale = "linear"
    choices: tuple[str, ...] = ()

    @property
    def drawn(self) -> str:
        """What the sampler calls what it draws: the setting, or its distance from 1."""
        return f"1 - {self.key}" if self.scale == "1-log" else self.key

    def word(self, value: Value) -> str:
        """The value of the setting for what was drawn, as `--set` takes it."""
        if self.kind == "choice":
            return str(value)
        number = 1.0 - float(value) if self.scale == "1-log" else float(value)
        return str(int(number)) if self.kind == "int" else f"{number:{_PRECISION}}"

    def holds(self, value: object) -> Value | None:
        """What would have to be drawn for the setting to be `value`; None where it cannot be."""
        if self.kind == "choice":
            return next((word for word in self.choices if _same(word, value)), None)
        if isinstance(value, bool) or not isinstance(value, int | float):
            number = parse_real(value) if isinstance(value, str) else None
        else:
            number = float(value)
        if number is None:
            return None
        drawn = 1.0 - number if self.scale == "1-log" else number
        if not self.low <= drawn <= self.high:
            return None
        return int(drawn) if self.kind == "int" else drawn


class _Given(Assignment, frozen=True):
    """One value of a `--param`, so that a refusal names what was typed."""

    @property
    def source(self) -> str:
        text = "none" if self.value is None else self.value.text
        return f"--param {plain_key(self.key)}={plain_key(text)}"


def space_of(words: Iterable[str], name: str, base: Spec) -> tuple[Parameter, ...]:
    """The parameters of `words` over those of the space `name` (empty: none), each once, checked against `base`.

    Raises `UsageError` for words that cannot be read, `PresetError` for what is no setting or no value of it.
    """
    if name and name not in SPACES:
        raise UsageError(f"--space {format_quantity(name)} is none of {', '.join(SPACES)}{nearest(name, SPACES)}")
    table = learning_table(base)[0]
    if name == "zoo" and table != "ppo":
        raise UsageError(
            f"--space zoo is the RL zoo's for PPO, and run.algo = '{table}': give the ranges, such as "
            f"--param {table}.learning_rate=log:1e-5..1e-2"
        )
    found: dict[str, Parameter] = {}
    for word in SPACES.get(name, ()):
        parameter = parse_parameter(word, base)
        found[parameter.key] = parameter
    own: set[str] = set()
    for word in words:
        parameter = parse_parameter(word, base)
        if parameter.key in own:
            raise UsageError(f"--param {parameter.key} is given twice; give each setting once")
        own.add(parameter.key)
        found[parameter.key] = parameter
    if not found:
        raise UsageError(
            "say what to search: --param ppo.learning_rate=log:1e-5..1e-2, one for each setting, or --space zoo"
        )
    return tuple(found.values())


def parse_parameter(word: str, base: Spec) -> Parameter:
    """The parameter that `--param word` asks for in runs like `base`. Raises `UsageError` and `PresetError`."""
    key, equals, text = (part.strip() for part in word.partition("="))
    if not equals or not key or not text:
        raise UsageError(
            f"--param {format_quantity(word)} is not KEY=RANGE, such as ppo.learning_rate=log:1e-5..1e-2, "
            "ppo.n_epochs=4..20 or ppo.clip_range=0.1,0.2"
        )
    if key in _NOT_SEARCHED:
        raise UsageError(f"--param {key}: {_NOT_SEARCHED[key]}")
    if base.run.command is None:
        _check_table(key, base)
    before, colon, after = text.partition(":")
    scale: Scale = "linear"
    if colon and ".." in after and "," not in before and "{" not in before:
        if before.strip() not in _SCALES:
            said = f"{format_quantity(before)}: is no scale; numbers are drawn evenly, or by log: or 1-log:"
            raise UsageError(f"--param {key}={text}: {said}{nearest(before, _SCALES)}")
        scale, text = _SCALES[before.strip()], after.strip()
    if ".." in text and "," not in text:
        return _range(key, text, scale, base)
    return _choice(key, text, base)


def _check_table(key: str, base: Spec) -> None:
    """Raise `UsageError` for a setting of an algorithm that does not train `base`."""
    table, _, name = key.partition(".")
    own, settings = learning_table(base)
    if table == own or table not in ("ppo", *OTHERS):
        return
    fields = settings.__struct_fields__
    setting = name.partition(".")[0]
    near = f"the nearest valid key is {own}.{name}"
    if setting not in fields:
        near = f"these are the settings of [{own}]: {', '.join(fields)}"
    raise UsageError(f"--param {key} has no effect with run.algo = '{own}'; {near}")


def _range(key: str, text: str, scale: Scale, base: Spec) -> Parameter:
    ends = [end.strip() for end in text.split("..")]
    numbers = [parse_real(end) for end in ends]
    if len(numbers) != 2 or None in numbers:
        raise UsageError(f"--param {key}={text}: a range is two numbers, LOW..HIGH, such as 4..20")
    low, high = (number or 0.0 for number in numbers)
    if not low < high:
        swapped = f"; did you mean {ends[1]}..{ends[0]}?" if high < low else "; one value is set with --set"
        raise UsageError(f"--param {key}={text}: the low end must be below the high one{swapped}")
    if scale != "linear" and low <= 0.0:
        raise UsageError(f"--param {key}={scale}:{text}: log: begins above 0, such as at {high / 1e3:g}")
    if scale == "1-log" and high > 1.0:
        raise UsageError(f"--param {key}=1-log:{text}: these are distances from 1; the largest is 1")
    probes = [f"{1.0 - end:{_PRECISION}}" for end in (low, high)] if scale == "1-log" else ends
    values = [_fitted(key, probe, base) for probe in probes]
    whole = all(isinstance(value, int) and not isinstance(value, bool) for value in values)
    if key.startswith(_TEXTS) and all(isinstance(value, str) for value in values):
        whole = all(parse_whole(end) is not None for end in ends)
    elif not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        raise UsageError(f"--param {key}={text}: {key} takes no numbers; give its values with commas")
    if whole and scale == "1-log":
        raise UsageError(f"--param {key}=1-log:{text}: {key} takes whole numbers")
    return Parameter(key=key, kind="int" if whole else "float", low=low, high=high, scale=scale)


def _choice(key: str, text: str, base: Spec) -> Parameter:
    words = [word.strip() for word in alternatives(text)]
    if len(words) < 2:
        near = f"; a range is LOW..HIGH, one value is --set {key}={text}"
        raise UsageError(f"--param {key}={text}: one value leaves nothing to search{near}")
    for assignments in expand((f"{key}={text}",)):
        _fitted(key, "none" if assignments[0].value is None else assignments[0].value.text, base)
    return Parameter(key=key, kind="choice", choices=tuple(words))


def _fitted(key: str, text: str, base: Spec) -> object:
    """What the setting is once it has the value `text`. Raises `PresetError` where it cannot have it."""
    ((given,),) = expand((f"{key}={text}",))
    return setting_of(draft_assigned(base, (_Given(given.key, given.value),)), key)


def setting_of(spec: Spec, key: str) -> object:
    """The value of the dotted `key`; None where nobody wrote it."""
    found: Any = spec
    for part in key.split("."):
        found = found.get(part) if isinstance(found, Mapping) else getattr(found, part, None)
    return found


def default_point(space: Sequence[Parameter], base: Spec) -> dict[str, Value] | None:
    """What would have to be drawn for a trial to be `base` itself; None where it lies outside the space."""
    point = {each.drawn: each.holds(setting_of(base, each.key)) for each in space}
    return None if None in point.values() else {name: value for name, value in point.items() if value is not None}


def trial_words(space: Sequence[Parameter], drawn: Mapping[str, Value], base: Spec) -> dict[str, str]:
    """The settings of a trial by key, as `--set` takes them.

    A minibatch larger than the rollout is the whole rollout, as Stable-Baselines3 has it.
    """
    words = {each.key: each.word(drawn[each.drawn]) for each in space}
    if base.run.command is not None:
        return words
    assigned = draft_assigned(base, expand([f"{key}={word}" for key, word in words.items()])[0])
    if learning_table(assigned)[0] != "ppo":
        return words
    batch, most = assigned.ppo.batch_size, rollout_size(assigned)
    return words | {_BATCH: str(most)} if isinstance(batch, int) and batch > most else words


def _same(word: str, value: object) -> bool:
    number = parse_real(word)
    if number is not None and isinstance(value, int | float) and not isinstance(value, bool):
        return math.isclose(number, float(value), rel_tol=1e-9)
    return word == value or word == str(value).lower() == "true" or word == str(value).lower() == "false"


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
