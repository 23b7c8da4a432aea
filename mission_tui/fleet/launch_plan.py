"""What a launch makes: how many runs, with which seeds, by which names and in which group.

The command line and the screen plan with it, and the supervisor checks with it what it is sent: all three say the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from mission_tui.errors import UsageError
from mission_tui.fleet.specs.assignment import expand, factors
from mission_tui.fleet.specs.spec import LARGEST_SEED, LaunchItem, Spec

RUNS_AT_ONCE = 64
"""The most runs that one launch may make."""
LONGEST_NAME = 64
_UNUSABLE = re.compile(r"[^A-Za-z0-9._]+")
_ONLY_SEED = re.compile(r"s\d+")
_SHORT = {"run.seed": "s", "ppo.learning_rate": "lr"}
NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST_NAME - 1}}}")
LONGEST_LABEL = 24
LABEL = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST_LABEL - 1}}}")


def check_name(name: str, what: str = "run name") -> str:
    """`name` if it can name a run, or a group of them, else a `UsageError` that says of `what` which can."""
    if NAME.fullmatch(name):
        return name
    shown = name if len(name) <= 40 else name[:37] + "..."
    near = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("._-")[:LONGEST_NAME]
    raise UsageError(
        f"{what} {shown!r} cannot be used: give 1 to {LONGEST_NAME} letters, digits, '.', '_' or '-', "
        "first a letter or digit" + (f", such as '{near}'" if near else "")
    )


def check_names(items: Iterable[LaunchItem]) -> None:
    """Raise `UsageError` for a run or a group that cannot be called so, and for two runs of one name."""
    given: set[str] = set()
    for item in items:
        if item.group is not None:
            check_name(item.group, "group name")
        if item.name is None:
            continue
        if check_name(item.name) in given:
            raise UsageError(f"the name '{item.name}' is given to two runs of one launch; give each another name")
        given.add(item.name)


def plan_launch(
    specs: Sequence[Spec],
    *,
    title: str,
    tag: str,
    name: str | None = None,
    group: str | None = None,
    copies: int = 1,
    after: tuple[str, ...] = (),
    product: str = "",
    labels: Sequence[str] = (),
) -> tuple[LaunchItem, ...]:
    """One run for each of `specs`, `copies` times: all of the first seed, then those of the next one, so that a sweep
    that is stopped half-way has whole seeds.

    Several runs of one `name` are numbered, and they have a group: `group`, or one that is named for them, or else for
    the preset or set `title`; `tag` tells it from that of another launch. Without a `name` they are called by `labels`,
    one for each of `specs`, as `run_labels` makes them. `product` says what is multiplied, as `product_words` does.
    Raises `UsageError` for too many runs and for names that cannot be used.
    """
    seeds = list(dict.fromkeys(spec.run.seed for spec in specs))
    order = sorted(range(len(specs)), key=lambda at: seeds.index(specs[at].run.seed))
    runs = [specs[at] for at in order for _ in range(copies)]
    if len(runs) > RUNS_AT_ONCE:
        raise UsageError(
            f"this would launch {len(runs)} runs at once ({product}), and {RUNS_AT_ONCE} is the most: give fewer "
            "values, seeds or copies"
        )
    several = len(runs) > 1
    if several and group is None:
        group = f"{(name or title)[: LONGEST_NAME - 1 - len(tag)]}-{tag}"
    names: Sequence[str | None] = [name]
    if several and name is not None:
        names = [f"{name}-{number}" for number in range(1, len(runs) + 1)]
    elif several:
        called = bool(labels) and copies == 1
        names = _called([it.preset for it in runs], tag, [labels[at] for at in order]) if called else [None] * len(runs)
    items = tuple(
        LaunchItem(spec=spec, name=called, group=group, after=after) for spec, called in zip(runs, names, strict=True)
    )
    check_names(items)
    return items


def _called(presets: Sequence[str], tag: str, labels: Sequence[str]) -> list[str | None]:
    """`lr0.003-s2-3f9a`, short enough for the list on a small terminal; with the preset, `cartpole-3f9a-s2`, where only
    seeds vary or there are several presets. None at all where one would be too long, or the same as another.
    """
    stems = [_UNUSABLE.sub("-", preset.rpartition(":")[2]).strip("-._") for preset in presets]
    bare = len(set(presets)) == 1 and not all(_ONLY_SEED.fullmatch(label) for label in labels)
    names = [f"{label}-{tag}" if bare else f"{stem}-{tag}-{label}" for stem, label in zip(stems, labels, strict=True)]
    usable = all(labels) and len(set(names)) == len(names) and all(NAME.fullmatch(each) for each in names)
    return [each if usable else None for each in names]


def run_labels(assignments: Sequence[str]) -> list[str]:
    """What is not the same in all runs of `assignments`, in the order of `expand`: `lr0.003-s2`; empty for one run.

    Raises `UsageError` as `expand` does.
    """
    varied = factors(assignments)
    return [
        "-".join(
            f"{_SHORT.get(key, key.rpartition('.')[2])}{_UNUSABLE.sub('-', each.value.text).strip('-')}"
            if each.value is not None
            else f"{_SHORT.get(key, key.rpartition('.')[2])}-none"
            for each in run
            if (key := each.key) in varied
        )
        for run in expand(assignments)
    ]


def launch_words(
    assignments: Sequence[str],
    *,
    seeds: Sequence[int] = (),
    device: str | None = None,
    priority: int | None = None,
    at_once: int | None = None,
) -> tuple[str, ...]:
    """`assignments` and, behind them, the `--set` words for what has an option or a field of its own; `at_once` are the
    runs of the launch that may live at the same time.
    """
    fields = {
        "run.seed": ",".join(map(str, seeds)) if seeds else None,
        "run.device": device,
        "keep.limits.priority": priority,
        "keep.limits.group_runs": at_once,
    }
    return (*assignments, *(f"{key}={value}" for key, value in fields.items() if value is not None))


def counted_seeds(count: int, first: int | None) -> tuple[int, ...]:
    """`count` seeds counting up from `first`, or else from 1. Raises `UsageError` for what goes beyond the largest."""
    begin = 1 if first is None else first
    if begin + count - 1 > LARGEST_SEED:
        raise UsageError(f"{count} seeds from {begin} go beyond {LARGEST_SEED}, the largest seed: begin lower")
    return tuple(range(begin, begin + count))


def repeat_seed(first: int | None, number: int) -> int:
    """The seed of repeat `number` (from 1): `first`, or else 1, counted up; after the largest comes 0."""
    return ((1 if first is None else first) + number - 1) % (LARGEST_SEED + 1)


def product_words(presets: int, values: Mapping[str, int], copies: int) -> str:
    """What a launch multiplies: `2 presets x 3 of ppo.gamma x 12 seeds x 2 copies`; empty for a single run.

    `values` are how many each key of a sweep has (`specs.assignment.factors`).
    """
    parts = [f"{presets} presets"] if presets > 1 else []
    parts += [f"{count} seeds" if key == "run.seed" else f"{count} of {key}" for key, count in values.items()]
    parts += [f"{copies} copies"] if copies > 1 else []
    return " x ".join(parts)
