"""`docs/presets-measured.md`: a row a preset, the two ends, the curves, and what a preset lacks that does not learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.presets.ends import Ends
from benchmarks.presets.measured import TRAININGS, Kept, Measured, share_won

__all__ = ["page"]

NEXT = "`make presets-measured`"
PREFACE = """\
# The presets on their mission, as measured

Written by `make presets-measured`; not by hand. Each preset trains MissionGym's `standard` mission with its own
numbers, under supervision, over its own budget as far as the time on its machine (named at the end) carried it. A row
says how many steps it stands for; what lies beyond them was not measured, and nothing is worked out from it."""
HEAD = (
    "| preset | steps trained | of its budget | won | how its episodes end | KL | clip fraction "
    "| gradient steps an update | rollout / update | evaluations | cores | memory | hours |\n" + "|---" * 13 + "|"
)
ENOUGH = 0.8
"""Share won from which a preset is said to win the mission."""
METHOD = """\
*won*: of 100 episodes played by `mission-tui evaluate` with the policy at that step, the likeliest action taken. KL
(`train/approx_kl`) and clip fraction are the last places of the curves below: medians over an eightieth of the
updates. *evaluations*: seconds from a saved checkpoint to the result of its evaluation, as a share of the seconds
trained; they run beside the training, niced below it. *cores*: the mean that the run's processes kept busy; *memory*:
the most that they held at once. *hours*: rollouts and updates so far, on a machine that did other work meanwhile.
One seed each.

Curves: *won in training* counts the episodes as they end there, with drawn actions; *won in evaluations* are those
played beside the training."""


def page(kept: Kept, pictures: Mapping[str, str]) -> str:
    """The whole page."""
    names = [name for name in TRAININGS if name in kept.presets]
    missions = {kept.presets[name].mission for name in names}
    parts = [
        PREFACE,
        "\n".join([HEAD, *(_row(name, kept.presets.get(name)) for name in TRAININGS)]),
        "\n".join(_sentence(name, kept.presets[name]) for name in names),
        "## The two ends",
        *(
            _ends(kept.ends[mission], mission, len(missions) > 1)
            for mission in sorted(missions)
            if mission in kept.ends
        ),
        "## How it was measured",
        METHOD,
        _commands(),
        "## Curves",
        *(f"![{name}]({pictures[name]})" for name in names if name in pictures),
        _machines(kept, names),
    ]
    return "\n\n".join(parts) + "\n"


def _row(name: str, it: Measured | None) -> str:
    if it is None:
        return f"| `{name}` | not measured: {NEXT} |" + " |" * 11
    ends = ", ".join(f"{outcome} {count}" for outcome, count in sorted(it.outcomes.items(), key=lambda each: -each[1]))
    cells = (
        f"`{name}`",
        f"{it.steps:,}",
        f"{it.steps / it.budget:.1%}" if it.budget else "",
        f"{it.won:.0%}",
        ends,
        _last([at.kl for at in it.points], ".4f"),
        _last([at.clip for at in it.points], ".3f"),
        f"{it.gradient_steps:,}",
        f"{it.rollout_share:.0%} / {1 - it.rollout_share:.0%}",
        f"{it.evaluation_share:.1%}",
        "" if it.cores is None else f"{it.cores:.1f}",
        "" if it.memory_bytes is None else f"{it.memory_bytes / 2**20:,.0f} MiB",
        f"{it.trained_s / 3600:.2f}",
    )
    return "| " + " | ".join(cells) + " |"


def _sentence(name: str, it: Measured) -> str:
    """What can be said of it as far as it was trained, and no further."""
    far = f"after {it.steps:,} of {it.budget:,} steps"
    reached = next((at.steps for at in it.played if at.won >= ENOUGH), None)
    if it.won < ENOUGH:
        drawn = next((at.won for at in reversed(it.points) if at.won is not None), None)
        beside = "" if drawn is None else f", {drawn:.0%} of those in training with drawn actions"
        return (
            f"- `{name}` wins {it.won:.0%} of its episodes {far}{beside}. What more steps would bring was not measured."
        )
    first = "" if reached is None else f", and {ENOUGH:.0%} in an evaluation at {reached:,} already"
    return f"- `{name}` **wins {it.won:.0%}** of its episodes {far}{first}."


def _last(values: Sequence[float | None], form: str) -> str:
    told = [value for value in values if value is not None]
    return format(told[-1], form) if told else ""


def _ends(ends: Ends, mission: str, several: bool) -> str:
    lines = [
        "| who plays" + (f" (mission {mission})" if several else "") + " | won | how its episodes end |",
        "|---|---|---|",
    ]
    for word, outcomes in (("random orders", ends.random), ("scripted seeker", ends.seeker)):
        total = sum(outcomes.values())
        said = ", ".join(
            f"{name} {count / total:.1%}" for name, count in sorted(outcomes.items(), key=lambda it: -it[1])
        )
        lines.append(f"| {word}, {total:,} episodes | {share_won(outcomes):.1%} | {said} |")
    return "\n".join(lines)


def _commands() -> str:
    return """\
```
make presets-measured                                 # every preset to the end of its budget: days on two cores
make presets-measured SECONDS=3600                    # an hour, shared among them; goes on where it was left
make presets-measured SECONDS=1200 ONLY="fast swarm"  # some of them
python -m benchmarks.presets --seconds 300 --at-once 5 --only heavy beast large-batch wide deep --set run.device=cuda
```"""


def _machines(kept: Kept, names: Sequence[str]) -> str:
    said: dict[str, list[str]] = {}
    for name in names:
        words = ", ".join(f"{key} {value}" for key, value in kept.machine.get(name, {}).items())
        said.setdefault(words + _place(kept.presets[name]), []).append(f"`{name}`")
    return "\n\n".join(f"{', '.join(of)}: {words}." for words, of in said.items() if words)


def _place(it: Measured) -> str:
    words = f"; with `{' '.join(f'--set {word}' for word in it.words)}`" if it.words else ""
    return words + (f"; {it.beside + 1} presets at once" if it.beside else "")
