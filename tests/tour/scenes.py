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

    A key is the name of one, `wait:` with what has to be shown before the next, or letters that are typed at once.
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
    return ("/", f"^{name} \r")


_ENTERED = "wait:Esc back"

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
        ("/", "steady\r"),
        "3 live",
        (TINY, SMALL),
    ),
    Scene(
        "seeds-wide",
        "Seeds of one setting, as a list",
        "The same where there is room for panes, and `v` has asked for the list.",
        ("v", "/", "steady\r"),
        "3 live",
        (LARGE, HUGE),
    ),
    Scene(
        "each-seed",
        "Each seed for itself",
        "`f` makes a row of every run, and one row of its seeds again.",
        ("/", "standard\r", "f"),
        "-3",
        EVERY,
    ),
    Scene(
        "sweep",
        "A sweep's table",
        "Its settings against its results, best first, in the detail of each of its runs.",
        ("/", "sweep\r", "wait:best first"),
        "best first",
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
        EVERY,
        lab="empty",
    ),
    Scene(
        "small",
        "Too small",
        "Below 40x10 the screen says what it needs; runs do not mind.",
        (),
        "too small",
        ((39, 12), (44, 9)),
        ("--readonly",),
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
        (*_find("short"), "enter", "wait: over timesteps", " ", "down", " ", "down", "tab", "\x1b[D\x1b[D\x1b[D"),
        "update ",
        EVERY,
    ),
    Scene(
        "ghost",
        "Goal, best so far, and a ghost",
        "Dots across are what the run is to reach, `▾` stands over its best. `G` draws the best or the previous run of "
        "the same task as loose dots.",
        (*_find("pole-2"), "enter", "wait: over timesteps", "G", "wait:pole-1"),
        "goal",
        EVERY,
    ),
    Scene(
        "live-ghost",
        "A live run beside the best one",
        "The same in the detail of a live run: where it stands, what it is to reach, and what another run made of it.",
        (*_find("steady-2"), "G", "wait:short", "tab", "z"),
        "goal",
        (SMALL, LARGE, HUGE),
    ),
    Scene(
        "symlog",
        "A symmetric-logarithmic axis",
        "`Y` turns the axis of the values: linear, logarithmic, and symmetric-logarithmic, which has zero and negative "
        "values too.",
        (*_find("raised"), "enter", "wait: over timesteps", "Y", "Y"),
        "symlog",
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
        "watch-pole",
        "CartPole at play",
        "Drawn from its state in characters: no pygame is installed where these pictures were taken.",
        (*_find("pole-1"), "w"),
        "policy at",
        EVERY,
    ),
    Scene(
        "watch-lake",
        "FrozenLake at play",
        "Its map, where the player stands, and what the policy makes of each way from there.",
        (*_find("lake"), "w"),
        "policy at",
        EVERY,
    ),
    Scene(
        "reel",
        "The reel of an evaluation",
        "`f` beside a policy at play: its best, median and worst episode again, or films of what is seen.",
        (*_find("short"), "w", "wait:policy at", "f"),
        "film",
        EVERY,
    ),
    Scene(
        "evaluated",
        "An evaluation",
        "`e` plays 100 episodes with the newest checkpoint; here 30 for the reel.",
        (*_find("short"), "w", "wait:policy at", "f", "wait:film", "e", "wait:worst episode"),
        "95 % CI",
        (TINY, SMALL, LARGE),
    ),
    Scene(
        "story",
        "One story",
        "Somebody set the learning rate x 100: that is the first word, what followed folds under it, and the remedy is "
        "to undo it. `h` leads there.",
        (*_find("raised"), "h"),
        "you set the learning rate",
        EVERY,
    ),
    Scene(
        "undo",
        "Undo your change",
        "`a` on that story shows where it goes back to and with which setting, before anything starts.",
        (*_find("raised"), "h", _ENTERED, "a"),
        "learning_rate",
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
        "runs with",
        EVERY,
    ),
    Scene(
        "checkpoints",
        "Checkpoints, attempts, evaluations",
        "Where it can go on from, how earlier attempts ended, and what evaluations said.",
        (*_find("short"), "enter", _ENTERED, "]]]]]]"),
        "attempt",
        EVERY,
    ),
    Scene(
        "log",
        "The log",
        "What the run printed, followed as it grows; `/` searches. `l` leads there.",
        (*_find("script"), "l"),
        "Esc back",
        (SMALL, HUGE),
    ),
    Scene(
        "compare",
        "Runs beside each other",
        "Marked runs with a curve each, results, what differs in their settings, and what to mind before"
        " believing it; a sweep has its settings against its results, best first. `Space` marks, `c` compares.",
        ("/", "sweep\r", " ", " ", " ", " ", "c"),
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
        "cores ",
        EVERY,
    ),
    Scene(
        "more",
        "Everything that can be done",
        "What the chosen or marked runs can be asked for, each with its key. `x` opens it; `:` finds actions by "
        "typing, and presets and runs as well.",
        (*_find("steady-1"), "x"),
        "pause",
        (TINY, SMALL, HUGE),
    ),
    Scene(
        "palette",
        "Found by typing",
        "`:` or Ctrl-P: actions, presets, runs and the command line's own verbs by any words of them.",
        (":", "check"),
        "checkpoint",
        (TINY, SMALL, HUGE),
    ),
    Scene(
        "synonyms",
        "Found by another word",
        "Who calls it something else finds it too: `delete`, `restart`, `quit`, `theme`, `learning rate`.",
        (*_find("steady-1"), ":", "restart"),
        "resume",
        (TINY, SMALL),
    ),
    Scene(
        "settings",
        "Settings in the palette",
        "Those that the chosen run takes while it trains, and those that a resume can change.",
        (*_find("steady-1"), ":", "learning rate"),
        "ppo.learning_rate",
    ),
    Scene(
        "verdict",
        "Going on with other settings",
        "`R` asks what shall be different, judges it against what the run learned, and says so before anything starts.",
        (*_find("short"), "R", "wait:Enter", "ppo.learning_rate=3e-3", "enter"),
        "learning_rate",
        EVERY,
    ),
    Scene(
        "again",
        "Training as long again",
        "`r` on a run that has finished offers that.",
        (*_find("short"), "r"),
        "total_timesteps",
        EVERY,
    ),
    Scene(
        "stop-and-resume",
        "Other settings for one that trains",
        "`R` on a live run: settings with their current values, completed by `Tab`; it saves, stops and goes on.",
        (*_find("steady-1"), "R", "wait:Enter", "ppo.n_"),
        "ppo.n_",
        EVERY,
    ),
    Scene(
        "set",
        "Settings while it trains",
        "`S` offers those that take effect with the next update, each as it is now.",
        (*_find("steady-1"), "S", "wait:Enter", "ppo.learning"),
        "learning_rate",
        EVERY,
    ),
    Scene(
        "kill",
        "Killing asks first",
        "Only what cannot be taken back asks, and it names the run. `s` saves and ends, and asks nothing.",
        (*_find("steady-1"), "K"),
        "kill now",
        (TINY, SMALL),
    ),
    Scene(
        "clean",
        "Leftovers",
        "What dead runs left behind, by identity and never by name; nothing is removed unseen. `X` looks for it.",
        ("X",),
        "left",
    ),
    Scene(
        "messages",
        "Messages",
        "What happened while nobody looked, run by run, and all messages since the screen was opened. `M` shows them.",
        (*_find("steady-1"), "C", "b", "M"),
        "of this screen",
        EVERY,
    ),
    Scene(
        "help",
        "Keys",
        "Every key, read from the one table that also makes it work.",
        ("?",),
        "start",
        EVERY,
    ),
    Scene(
        "legend",
        "Symbols and numbers",
        "Below the keys: what each sign means, and what each number is.",
        ("?", "wait:Esc back", "\x1b[F"),
        "good to know",
        EVERY,
    ),
    Scene(
        "replay",
        "As it was",
        "The same screen at an earlier moment, read from the files; `,` and `.` move through time, `H` returns to now.",
        (),
        "REPLAY",
        EVERY,
        ("replay", "--back", "20s"),
    ),
    Scene(
        "read-only",
        "Looking only",
        "`mission-tui --readonly` reads the run files, starts nothing and changes nothing; it says so in the head.",
        (),
        "read-only",
        EVERY,
        ("--readonly",),
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
