"""A launch as it stands in the form: what was typed, as `--set` words, what that means in numbers, and its cost; and
the runs of a preset with such changes, as the one planner of launches makes them.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import NamedTuple

from msgspec import structs

from mission_tui.errors import UsageError
from mission_tui.fleet.capacity.demand import Cost, ReferenceSpeed, first_update_s, whole_run_range_s, whole_run_s
from mission_tui.fleet.launch_plan import (
    RUNS_AT_ONCE,
    counted_seeds,
    launch_words,
    plan_launch,
    product_words,
    run_labels,
)
from mission_tui.fleet.search import driver_launch
from mission_tui.fleet.specs.algorithm import engine_of, learning_table, replay_buffer_of
from mission_tui.fleet.specs.assignment import doubtful_env, factors
from mission_tui.fleet.specs.sb3_algorithms import ArsSpec, OtherAlgorithm, other_algorithm, plays_episodes
from mission_tui.fleet.specs.sizes import plan_batch, update_pressure
from mission_tui.fleet.specs.spec import (
    LARGEST_SEED,
    LaunchItem,
    Schedule,
    Spec,
    command_words,
    is_driver,
    other_settings,
    rollout_size,
)
from mission_tui.ipc.replies import Quoted
from mission_tui.present import numbers
from mission_tui.present.numbers import all_at_once, differing_words, replay_words
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import Part
from mission_tui.tui.state.presets import PresetChoice, Resolve, members

_MOST_PRIORITY = 1000
ELSEWHERE = (
    "For other seeds write run.seed=1,7 in the changes. Only mission-tui launch starts several presets at once (A B), "
    "a file outside the presets folders (--preset FILE) or your own command (-- CMD), and can wait for them (--wait)."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The fields of the form as they were typed; `device` None leaves it to the preset, `machine` None is the first."""

    changes: str = ""
    copies: str = "1"
    seeds: str = ""
    first_seed: str = ""
    device: str | None = None
    machine: str | None = None
    priority: str = ""
    name: str = ""
    group: str = ""
    after: str = ""

    @property
    def runs_of_each(self) -> int:
        """Raises `UsageError` for what is no number of runs."""
        return _number(self.copies, "runs of each", 1, RUNS_AT_ONCE)


def kept_words(draft: Draft, preset: str) -> dict[str, str]:
    """What was typed, by field, with its preset: a plain table that a file can hold."""
    typed, empty = asdict(draft), asdict(Draft())
    return {"preset": preset} | {name: value for name, value in typed.items() if value != empty[name]}


def draft_of(kept: Mapping[str, str]) -> Draft:
    """The fields again; what is none of them any more is passed over."""
    return Draft(**{field.name: kept[field.name] for field in fields(Draft) if field.name in kept})


def assignments(text: str) -> tuple[str, ...]:
    """One `key=value` per line, also where `--set` was pasted before it; blank lines and those that begin with `#` say
    nothing.
    """
    lines = (re.sub(r"^--set(=|\s+|$)", "", line.strip()) for line in text.splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


def words(draft: Draft) -> tuple[str, ...]:
    """All settings of the form as `--set` words. Raises `UsageError` for what is no number, or is said twice."""
    typed = assignments(draft.changes)
    priority = _number(draft.priority, "priority", -_MOST_PRIORITY, _MOST_PRIORITY) if draft.priority else None
    whole = launch_words(typed, seeds=_seeds(draft), device=draft.device, priority=priority)
    said = {word.partition("=")[0].strip() for word in typed}
    for word in whole[len(typed) :]:
        key = word.partition("=")[0]
        if key in said:
            raise UsageError(f"{key} is in the changes and in a field of its own: leave one of the two empty")
    return whole


def followed(draft: Draft) -> tuple[str, ...]:
    """The runs that have to end first."""
    return tuple(filter(None, re.split(r"[,\s]+", draft.after)))


def _heading(items: Sequence[LaunchItem], settings: Sequence[str], copies: int) -> str:
    """How many runs that makes, and by what they are many."""
    if len(items) == 1:
        return "1 run"
    presets = len({item.spec.preset for item in items})
    return f"{len(items)} runs ({product_words(presets, factors(settings), copies)}); the first:"


def meaning(items: Sequence[LaunchItem], settings: Sequence[str] = (), copies: int = 1) -> list[str]:
    """The numbers that decide a run, for the first of `items`, after what differs between several."""
    spec, first = items[0].spec, _heading(items, settings, copies)
    if is_driver(spec.preset):
        confirmed = f"then the winner and the preset train with {spec.run.values['confirm']} fresh seeds each"
        return [spec.description, confirmed]
    if spec.run.command is not None:
        return [f"{first}  {shlex.join(command_words(spec.run))}", "a command: its exit code says how it ended"]
    plan = plan_batch(spec)
    rollout = rollout_size(spec)
    if (other := other_algorithm(spec.run.algo)) is not None:
        return [
            f"{first}  {spec.env.id}, {_seed(spec)}, {_budget(spec, rollout)}",
            *_of_other(spec, other),
            *((f"{doubt} Ctrl-T tries it",) if (doubt := doubtful_env(spec)) else ()),
        ]
    shape = f"{spec.env.n_envs} x {spec.ppo.n_steps:,} = {rollout:,}"
    pressure = f"update pressure {update_pressure(spec):.1f}"
    lines = [
        f"{first}  {spec.env.id}, {_seed(spec)}, {_budget(spec, rollout)}",
        f"rollout {shape}   batch {plan.batch_size:,}   epochs {plan.n_epochs}",
        f"gradient steps {plan.gradient_steps:,} an update   {_rate(spec)}   {pressure}",
    ]
    if spec.ppo.algo != "ppo":
        lines.append(f"{spec.ppo.algo} of sb3-contrib   engine {engine_of(spec)}")
    if plan.proposed_learning_rate is not None:
        lines.append(f"a learning rate of {plan.proposed_learning_rate:.3g} would hold the update pressure")
    if doubt := doubtful_env(spec):
        lines.append(f"{doubt} Ctrl-T tries it")
    return lines


def _of_other(spec: Spec, other: OtherAlgorithm) -> Iterator[str]:
    """What decides a run of another algorithm than PPO."""
    plan, period = plan_batch(spec), rollout_size(spec)
    package = other.package.replace("stable_baselines3", "Stable-Baselines3").replace("sb3_contrib", "sb3-contrib")
    settings = other_settings(spec)
    least = "at least " if settings is not None and plays_episodes(settings) else ""
    yield f"{other.called} of {package}   an update is {least}{period:,} steps of {spec.env.n_envs} environment(s)"
    if isinstance(settings, ArsSpec):
        yield f"{settings.n_delta:,} perturbations in both directions an iteration   {_rate(spec)}"
    else:
        yield f"batch {plan.batch_size:,}   gradient steps {plan.gradient_steps:,} an update   {_rate(spec)}"
    buffer = replay_buffer_of(spec)
    if buffer is not None:
        begins = f"learns from step {buffer.learning_starts:,} on"
        yield f"replay buffer {buffer.buffer_size:,} transitions   {begins}"


def _seeds(draft: Draft) -> tuple[int, ...]:
    first = _number(draft.first_seed, "from", 0, LARGEST_SEED) if draft.first_seed else None
    if draft.seeds:
        return counted_seeds(_number(draft.seeds, "seeds", 1, RUNS_AT_ONCE), first)
    return () if first is None else (first,)


def _number(text: str, field: str, least: int, most: int) -> int:
    text = text.strip()
    if not re.fullmatch(r"[+-]?\d{1,12}", text, re.ASCII):
        raise UsageError(f"{field}: {text or 'nothing'} is not a number; give one from {least} to {most}")
    if not least <= (number := int(text)) <= most:
        near = min(max(number, least), most)
        raise UsageError(f"{field}: a number from {least} to {most}; the nearest valid value is {near}")
    return number


def _seed(spec: Spec) -> str:
    return "its own seed" if spec.run.seed is None else f"seed {spec.run.seed}"


def _budget(spec: Spec, rollout: int) -> str:
    if spec.run.total_timesteps is None:
        return f"for {numbers.duration(spec.run.duration_s)}"
    other = other_settings(spec)
    most = "at most " if other is not None and plays_episodes(other) else ""
    return f"{spec.run.total_timesteps:,} steps in {most}{-(-spec.run.total_timesteps // rollout):,} updates"


def _rate(spec: Spec) -> str:
    rate = learning_table(spec)[1].learning_rate
    return f"learning rate {rate.start:g} to {rate.end:g}" if isinstance(rate, Schedule) else f"learning rate {rate:g}"


def price(items: Sequence[LaunchItem], quoted: Quoted, cores: int | None, now: float) -> Iterator[Part]:
    """For the first of `items`, and for all of them together, on a machine of `cores` at unix time `now`."""
    first, spec = quoted.costs[0], items[0].spec
    if quoted.decided and not quoted.refused:
        yield _beginning(quoted.costs)
    of_all = "" if cores is None else f" of {cores}"
    yield f"{_memory(first)}   cores {first.cores}{of_all}", colours.INK
    if spec.run.command is None:
        yield from ((text, colours.INK) for text in _times(spec, first.pace, now))
    if replayed := replay_words(spec):
        yield replayed, colours.INK
    if len(quoted.costs) > 1:
        yield all_at_once(quoted.costs), colours.INK
    for warning in quoted.warnings:
        yield f"▲ {warning}", colours.WARN


def _memory(cost: Cost) -> str:
    ram = f"memory {numbers.size(cost.ram_bytes)} ({_source(seen=cost.ram_seen)})"
    if cost.vram_bytes is None:
        return f"{ram}   GPU memory none"
    return f"{ram}   GPU memory {numbers.size(cost.vram_bytes)} ({_source(seen=cost.vram_seen)})"


def _source(*, seen: bool) -> str:
    return "measured" if seen else "estimate"


def _times(spec: Spec, pace: ReferenceSpeed | None, now: float) -> Iterator[str]:
    if pace is None:
        whole = f"trains for {numbers.duration(whole)}" if (whole := whole_run_s(spec, None)) is not None else ""
        yield "   ".join(filter(None, (whole, "never run here, so its speed is not known; Ctrl-T measures it")))
        return
    begun, middle = first_update_s(spec, pace), whole_run_s(spec, pace)
    first = numbers.duration_range(begun, begun)
    whole = numbers.duration_range(*(whole_run_range_s(spec, pace) or (middle, middle)))
    yield f"first update after {first}   whole run {whole}"
    others = f" and {pace.runs - 1} before it" if pace.runs > 1 else ""
    but = f", but it had {differs}" if (differs := differing_words(pace)) else ""
    yield f"at {numbers.rate(pace.steps_per_s)} steps/s, as {pace.name} {numbers.ago(pace.t, now)}{others}{but}"


def _beginning(costs: Sequence[Cost]) -> Part:
    waiting = [cost for cost in costs if cost.waits]
    if not waiting:
        every = "begins" if len(costs) == 1 else f"all {len(costs)} begin"
        return f"✓ {every} now{_where(costs)}", colours.GOOD
    if len(costs) == 1:
        return f"◌ {waiting[0].waits}", colours.WARN
    going = len(costs) - len(waiting)
    begin = f"{going} begin now, " if going else ""
    return f"◌ {begin}{len(waiting)} queued: the first {waiting[0].waits}", colours.WARN


def _where(costs: Sequence[Cost]) -> str:
    gpus = sorted({cost.gpu for cost in costs if cost.gpu is not None})
    if not gpus:
        return ""
    return f" on GPU {', '.join(map(str, gpus))}"


class DraftedLaunch(NamedTuple):
    """What a form stands for: its runs, and the machine on which they are to begin; empty on a screen of one."""

    items: tuple[LaunchItem, ...]
    at: str = ""


async def plan(
    resolve: Resolve,
    preset: PresetChoice,
    assignments: Sequence[str] = (),
    *,
    name: str | None = None,
    copies: int = 1,
    group: str | None = None,
    after: tuple[str, ...] = (),
) -> tuple[LaunchItem, ...]:
    """One item per run of `preset` with `assignments`, `copies` times; see `plan_launch`. Of a search it is the driver.

    Raises `MissionError`.
    """
    made = [await asyncio.to_thread(resolve, member, assignments) for member in members(preset)]
    if is_driver(made[0][0].preset):
        if copies > 1:
            raise UsageError(
                "runs of each: a search is one run and its trials; give 1, or search.seeds=3 in the changes"
            )
        return (structs.replace(driver_launch(made[0][0], name or group), after=after),)
    return plan_launch(
        [spec for specs in made for spec in specs],
        title=preset.name.rpartition(":")[2],
        tag=secrets.token_hex(2),
        name=name,
        group=group,
        copies=copies,
        after=after,
        product=product_words(len(made), factors(assignments), copies),
        labels=run_labels(assignments) * len(made),
    )
