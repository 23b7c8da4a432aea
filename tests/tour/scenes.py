"""What the tour shows: every screen, how one comes to it from the fleet, and two sentences about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.terminal import TRUE_COLOUR

__all__ = ["SCENES", "Scene"]

TINY, SMALL, MIDDLE, LARGE, HUGE = (60, 20), (80, 24), (120, 40), (160, 50), (200, 60)
EVERY = (TINY, SMALL, LARGE, HUGE)
"""What is looked at most is shown at every size that people have."""


@dataclass(frozen=True, slots=True)
class Scene:
    """`keys` lead there from the fleet; `ready` is on the screen when it is drawn. `words` start the program.

    `lab` is another folder than that of the fleet, and nothing ever ran in it; `kind` is what the terminal says
    of itself.
    """

    name: str
    title: str
    said: str
    keys: tuple[str, ...]
    ready: str
    sizes: tuple[tuple[int, int], ...] = (SMALL,)
    words: tuple[str, ...] = ()
    environ: dict[str, str] = field(default_factory=dict)
    lab: str = ""
    kind: Mapping[str, str] = field(default_factory=lambda: TRUE_COLOUR)


def _find(name: str) -> tuple[str, ...]:
    return ("/", *f"^{name} ", "enter")


SCENES = (
    Scene(
        "fleet",
        "The fleet",
        "One line a run, with its state, curve, speed and health; the chosen one in detail below. From "
        "120 columns on live runs are panes, `v` switches by hand. Runs that differ by their seed alone "
        "are one row with their median and interquartile range; `Enter` opens it, `f` closes it.",
        (),
        "steady",
        (TINY, SMALL, MIDDLE, LARGE, HUGE),
    ),
    Scene(
        "panes",
        "Live runs as panes",
        "As wide as there is room: progress, speed, phases, return and the worst finding of each. `v` turns between "
        "panes and list at any width.",
        ("v",),
        "more live runs",
        (TINY, SMALL),
    ),
    Scene(
        "seeds",
        "Seeds of one setting",
        "One row for all of them, and the line below it says the same as `compare`: median, interquartile range, n, "
        "how many live.",
        ("/", *"standard", "enter"),
        "IQR",
        EVERY,
    ),
    Scene(
        "detail",
        "The chosen run alone",
        "`Tab` goes to the detail and `z` gives it the whole screen: progress, curves, and what is wrong.",
        (*_find("eager"), "tab", "z"),
        "advice",
        EVERY,
    ),
    Scene(
        "empty",
        "Nothing yet",
        "An empty list says which key starts what, and that a run goes on when you leave. Where runs go on "
        "elsewhere it names the place, and `W` goes there.",
        (),
        "Also live",
        lab="empty",
    ),
    Scene(
        "run",
        "A run",
        "Any metric over steps, updates or time, every metric with its last value beside it; from 160 columns on a "
        "wall of charts. `Enter` opens it, `[` and `]` turn its tabs.",
        (*_find("short"), "enter"),
        " over timesteps",
        EVERY,
    ),
    Scene(
        "chart",
        "One crosshair through all charts",
        "`Tab` puts it on the newest update, the arrows move it, and every metric is read off there. `Space` keeps "
        "several metrics; what has no common axis is drawn below each other.",
        (*_find("short"), "enter", "space", "down", "space", "down", "tab", *["\x1b[D"] * 3),
        "update ",
        EVERY,
    ),
    Scene(
        "watch",
        "The policy at play",
        "The newest checkpoint plays beside its curve, in a process of its own. `w` leads there.",
        (*_find("short"), "w"),
        "policy at",
        EVERY,
    ),
    Scene(
        "findings",
        "What is wrong",
        "The finding, what in this run's own settings caused it, and one thing to do; `a` does it after "
        "showing what changes. Below, each value that the rules read, with its limits.",
        (*_find("eager"), "h"),
        "Esc back",
        EVERY,
    ),
    Scene(
        "config",
        "What really runs",
        "Every setting as it was asked for and as it was read back from the model, with what the program made of it. "
        "`d` leads there.",
        (*_find("eager"), "d"),
        "learning_rate",
    ),
    Scene(
        "checkpoints",
        "Checkpoints, attempts, evaluations",
        "Where it can go on from, how earlier attempts ended, what evaluations said, and what people did to it.",
        (*_find("short"), "enter", *["]"] * 6),
        "attempt",
    ),
    Scene(
        "log",
        "The log",
        "What the run printed, followed as it grows; `/` searches. `l` leads there.",
        (*_find("script"), "l"),
        "Esc back",
    ),
    Scene(
        "compare",
        "Runs beside each other",
        "Marked runs with a curve each, results, what differs in their settings, and what to mind before"
        " believing it; a sweep has its settings against its results, best first. `Space` marks, `c` compares.",
        ("/", *"sweep", "enter", *["space"] * 4, "c"),
        "best first",
        EVERY,
    ),
    Scene(
        "form",
        "A new run",
        "Any setting, judged while it is typed, with what it will cost in memory and time. `n` opens it;"
        " `1` to `5` and `P` start a preset at once without it.",
        ("?", "escape", "n"),
        "gradient steps",
        EVERY,
    ),
    Scene(
        "machine",
        "The machine",
        "What processors, memory and GPUs do, what each live run takes of them, and what is not ours. `m` leads there.",
        ("m",),
        "all runs",
    ),
    Scene(
        "more",
        "Everything that can be done",
        "What the chosen or marked runs can be asked for, found by typing. `x` opens it; `:` finds "
        "presets and runs as well.",
        (*_find("steady-1"), "x"),
        "pause",
    ),
    Scene(
        "palette",
        "Found by typing",
        "`:` or Ctrl-P: actions, presets, runs and the command line's own verbs by any words of them.",
        (":", *"check"),
        "checkpoint",
    ),
    Scene(
        "verdict",
        "Going on with other settings",
        "`R` asks what shall be different, judges it against what the run learned, and says so before anything starts.",
        (*_find("short"), "R", *"ppo.learning_rate=3e-3", "enter"),
        "learning_rate",
        EVERY,
    ),
    Scene(
        "kill",
        "Killing asks first",
        "Only what cannot be taken back asks, and it names the run. `s` saves and ends, and asks nothing.",
        (*_find("steady-1"), "K"),
        "kill now",
    ),
    Scene(
        "clean",
        "Leftovers",
        "What dead runs left behind, by identity and never by name; nothing is removed unseen. `X` looks for it.",
        ("X",),
        "left",
    ),
    Scene(
        "help",
        "Keys",
        "Every key, read from the one table that also makes it work.",
        ("?",),
        "start",
    ),
    Scene(
        "replay",
        "As it was",
        "The same screen at an earlier moment, read from the files; `,` and `.` move through time, `H` returns to now.",
        (),
        "REPLAY",
        (SMALL, LARGE),
        ("replay", "--back", "20s"),
    ),
    Scene(
        "no-colour",
        "Without colours",
        "With `NO_COLOR` every state is still a word and a shape.",
        (),
        "steady",
        (SMALL,),
        (),
        {"NO_COLOR": "1"},
    ),
    Scene(
        "light",
        "On a light ground",
        "`MISSION_TUI_THEME=light` takes darker inks of the same colour-blind-safe hues.",
        (),
        "steady",
        (SMALL, MIDDLE),
        (),
        {"MISSION_TUI_THEME": "light"},
    ),
    Scene(
        "screen",
        "With 256 colours",
        "Inside screen or tmux, as `TERM=screen-256color` has it.",
        (),
        "steady",
        (SMALL, MIDDLE),
        kind={"TERM": "screen-256color", "COLORTERM": ""},
    ),
    Scene(
        "xterm",
        "With 16 colours",
        "With `TERM=xterm` the terminal's own sixteen are enough to tell states apart.",
        (),
        "steady",
        (SMALL,),
        kind={"TERM": "xterm", "COLORTERM": ""},
    ),
    Scene(
        "ascii",
        "Without UTF-8",
        "Where the locale speaks no UTF-8 plain letters draw the same.",
        (),
        "steady",
        (SMALL,),
        (),
        {"LANG": "C", "LC_ALL": "C"},
    ),
)
