"""The catalogue of commands: what a person can ask for, by which key and which word, and for which runs.

The screen's bindings, footer, help, palette and `x` menu, the command line with what it answers from files alone, and
`docs/keys.md` are made of it. Whether a command means something for a run as it stands is `objection`, which screen and
supervisor ask alike; `is_applicable` also leaves out what would change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

from mission_tui.fleet.events.outcome import ALIVE, OVER, RunState

if TYPE_CHECKING:
    from mission_tui.fleet.events.findings import Finding
    from mission_tui.fleet.views.snapshot import RunView


LAUNCH_KEYS = (*"1234567890", "P")
"""The keys a preset may carry."""

Needs = Literal["none", "run", "marked"]

_WAITS: frozenset[RunState] = frozenset({"queued"})
_HALTED: frozenset[RunState] = frozenset({"stopping"})
_HELD: frozenset[RunState] = frozenset({"paused", "frozen"})
_TRAINS: frozenset[RunState] = frozenset({"running", "paused", "frozen"})
_ANY: Mapping[RunState, str] = MappingProxyType({})
_COMMAND = "it runs a command, which"


class Command(NamedTuple):
    """One row: `name` is what menus and sentences call it, `help` what it does in a line, on the screen.

    `keys`, and `label` if the footer's word is not the name, are the screen's too; `hint` puts it into the footer,
    where a smaller number stays longer, and `sheet` says that it may lay another screen over the present one. `word` is
    the command line's; `offline`: with `--readonly` it is answered from the files alone. `needs` says how many runs it
    is about, `changes` hides it from a read-only screen.

    An `order` is a request of its word and runs and of nothing else; `brief` is its help on the command line.

    It means something in `states` (None: in all), with `why_not` as the sentences for others; in those of `already` it
    changes nothing. Foreign runs refuse it if it is for `ours`; `on_finding`: it is about an open finding.
    `unsupported` says why a run of a command that is not ours can never take it, `elsewhere` why one that Slurm or Ray
    carries out cannot; `begun`: one whose job still waits in their queue cannot either.
    """

    name: str
    help: str
    keys: tuple[str, ...] = ()
    word: str = ""
    label: str = ""
    hint: int | None = None
    needs: Needs = "none"
    changes: bool = True
    destructive: bool = False
    sheet: bool = False
    offline: bool = False
    order: bool = False
    brief: str = ""
    states: frozenset[RunState] | None = None
    already: frozenset[RunState] = frozenset()
    why_not: Mapping[RunState, str] = _ANY
    ours: bool = False
    on_finding: bool = False
    unsupported: str = ""
    elsewhere: str = ""
    begun: bool = False


def _order(
    name: str,
    key: str,
    help: str,  # noqa: A002
    brief: str,
    states: frozenset[RunState],
) -> Command:
    """One that is asked of several runs at once and needs no more than their names."""
    return Command(name, help, (key,), name, needs="marked", order=True, brief=brief, states=states, ours=True)


def _with_words(word: str, help: str, *, offline: bool = False) -> Command:  # noqa: A002
    """One without a key: the palette begins its line for the person to go on with."""
    return Command(word, help, word=word, changes=not offline, offline=offline)


CATALOGUE: tuple[Command, ...] = (
    Command("launch", "start the preset that carries this key, at once", LAUNCH_KEYS, "launch", label="start"),
    Command("new", "a new run with changes, checked while you type", ("n",), hint=2, sheet=True),
    Command("undo", "for ten seconds: take back a start or a removal", ("u",)),
    _order(
        "pause",
        "p",
        "hold at the next update; the process stays",
        "Hold runs at their next update boundary.",
        frozenset({"running", "starting"}),
    )._replace(
        hint=3, begun=True, unsupported=f"{_COMMAND} cannot be held at an update; freeze stops it where it stands"
    ),
    _order(
        "freeze",
        "F",
        "stop every process where it stands; memory stays held",
        "Stop runs where they stand; memory stays held.",
        frozenset({"running", "starting", "paused"}),
    )._replace(elsewhere="nothing can be frozen on the node of a cluster; pause it instead"),
    _order(
        "park",
        "B",
        "save and end its processes: memory is free, r goes on",
        "Save runs and end their processes, to be resumed later.",
        ALIVE - _HALTED | _WAITS,
    )._replace(unsupported=f"{_COMMAND} cannot be asked to save and make room; freeze holds it, stop ends it"),
    Command(
        "resume",
        "go on: a paused or frozen run, or one that was parked or ended, from its checkpoint",
        ("r",),
        "resume",
        hint=6,
        needs="marked",
        sheet=True,
        ours=True,
    ),
    Command(
        "resume with",
        "with other settings, shown first; one that trains stops for it",
        ("R",),
        needs="run",
        sheet=True,
        states=OVER | {"running"},
        why_not=MappingProxyType(
            {
                "paused": "it is paused; let it go on (r) or stop it (s) first",
                "frozen": "it is frozen; let it go on (r) or stop it (s) first",
                "queued": "it has not begun; S changes what it begins with",
            }
        ),
        ours=True,
    ),
    Command(
        "set",
        "other settings from its next update, or its start; shown first",
        ("S",),
        "set",
        needs="run",
        sheet=True,
        states=_TRAINS | _WAITS,
        ours=True,
    ),
    Command("clone", "a new run like this one, with changes", ("N",), "clone", needs="run", sheet=True, ours=True),
    _order(
        "stop",
        "s",
        "save a checkpoint, then end; a command gets SIGTERM",
        "End runs gracefully, each with a checkpoint.",
        ALIVE | _WAITS,
    )._replace(hint=4, already=_HALTED),
    _order(
        "kill",
        "K",
        "end at once, unsaved; asks first",
        "End runs at once, without saving.",
        ALIVE | _WAITS,
    )._replace(hint=5, destructive=True, sheet=True),
    _order(
        "checkpoint",
        "C",
        "save a checkpoint at the next update",
        "Save a checkpoint at the next update boundary.",
        frozenset({"starting", "running", "paused"}),
    )._replace(
        why_not=MappingProxyType(
            {"stopping": "it is stopping, which saves one anyway", "frozen": "it is frozen; resume it first"}
        ),
        begun=True,
        unsupported=f"{_COMMAND} saves what and when it wants to",
    ),
    Command(
        "evaluate",
        "100 episodes with the newest checkpoint, and their reel",
        ("e",),
        "evaluate",
        hint=8,
        needs="run",
        sheet=True,
        ours=True,
        unsupported=f"{_COMMAND} leaves no policy that could be played here",
    ),
    Command(
        "apply",
        "do what the finding advises: resume with the change, shown first",
        ("a",),
        hint=2,
        needs="run",
        sheet=True,
        ours=True,
        on_finding=True,
        unsupported=f"{_COMMAND} cannot be told settings; change its own and launch it again",
    ),
    Command(
        "acknowledge",
        "the finding is known: no badge until it gets worse; again: undo",
        ("i",),
        label="ack",
        hint=8,
        needs="run",
        ours=True,
        on_finding=True,
    ),
    Command(
        "silence",
        "silence the finding's rule for this run; again: let it speak",
        ("I",),
        hint=10,
        needs="run",
        ours=True,
        on_finding=True,
    ),
    Command(
        "set advice",
        "what the finding advises, set while it trains: nothing is taken back",
        ("A",),
        needs="run",
        sheet=True,
        states=_TRAINS,
        ours=True,
        on_finding=True,
    ),
    Command(
        "try",
        "other settings on branches of it, beside branches without: what they say",
        ("V",),
        "try",
        needs="run",
        sheet=True,
        ours=True,
    ),
    Command("rename", "call it something else", ("E",), "rename", needs="run", sheet=True, ours=True),
    Command("note", "write something about it into its journal", ("T",), "note", needs="run", sheet=True, ours=True),
    Command("label", "put labels on it, or take them off", ("L",), "label", needs="run", sheet=True, ours=True),
    Command(
        "adopt",
        "a foreign run: see what it would run, and take it for yours",
        ("D",),
        "adopt",
        hint=1,
        needs="marked",
        sheet=True,
    ),
    Command(
        "remove",
        "move an ended run to the trash, for a day; u takes it back",
        ("delete",),
        "rm",
        needs="marked",
        states=OVER,
    ),
    Command("clean", "see what dead runs left behind, and remove it", ("X",), "clean", destructive=True, sheet=True),
    Command(
        "findings",
        "what is wrong, why, what to do, and each value with its limits",
        ("h",),
        "findings",
        hint=11,
        needs="run",
        changes=False,
        offline=True,
    ),
    Command("log", "what the run printed", ("l",), "logs", hint=9, needs="run", changes=False, offline=True),
    Command(
        "watch",
        "see the policy of the newest checkpoint play, or that of an older one",
        ("w",),
        hint=13,
        needs="run",
        changes=False,
    ),
    Command(
        "compare",
        "marked runs beside each other; one alone with its launch, or the run before it",
        ("c",),
        "compare",
        needs="marked",
        changes=False,
        sheet=True,
        offline=True,
    ),
    Command(
        "replay",
        "the fleet as it was ten minutes ago; in a replay: back to now",
        ("H",),
        "replay",
        changes=False,
        offline=True,
    ),
    Command(
        "screenshot",
        "the whole screen as an SVG file, and as PNG",
        ("f12",),
        "screenshot",
        changes=False,
        offline=True,
    ),
    _with_words("status", "every run in a line, or as JSON", offline=True),
    _with_words("top", "what each run takes of the machine", offline=True),
    _with_words("metrics", "a run's rows, for other programs", offline=True),
    _with_words("wait", "until runs have ended", offline=True),
    _with_words("report", "runs as one HTML file to send to anybody", offline=True),
    _with_words("track", "runs passed on to wandb, MLflow, trackio or TensorBoard"),
    _with_words("judge", "a training of another program by its TensorBoard files", offline=True),
    _with_words("bench", "how fast presets are, beside each other"),
    _with_words("search", "settings that learn better, by Optuna"),
    _with_words("tune", "the fastest way to run a preset on this machine"),
    _with_words("export", "a checkpoint as a zip for Stable-Baselines3")._replace(
        unsupported=f"{_COMMAND} leaves no policy that could be exported here"
    ),
    _with_words("film", "episodes of several checkpoints side by side, as a GIF, WebP or MP4")._replace(
        unsupported=f"{_COMMAND} leaves no policy that could be filmed here"
    ),
    _with_words("import-checkpoint", "a zip of Stable-Baselines3 as a run"),
    _with_words("import-run", "a whole folder of a Stable-Baselines3 run"),
    _with_words("prune", "old runs and checkpoints into the trash"),
    _with_words("presets", "what can be started, and what is in it", offline=True),
    _with_words("check", "a preset for mistakes, before it is started"),
    _with_words("paths", "where everything is", offline=True),
    _with_words("doctor", "what this machine lacks"),
    _with_words("serve", "the screen in a browser", offline=True),
    _with_words("supervisor", "its state, its log"),
    _with_words("bridge", "what --host speaks with on another machine", offline=True),
    _with_words("service", "go on after a reboot"),
)

COMMANDS: Mapping[str, Command] = {command.name: command for command in CATALOGUE}
WORDS: Mapping[str, Command] = {command.word: command for command in CATALOGUE if command.word}
"""By the command line's word."""

_OTHERS: Mapping[str, str] = {
    **{command.name: command.unsupported for command in CATALOGUE if command.unsupported},
    "metrics": f"{_COMMAND} has reported nothing",
    "branch": f"{_COMMAND} leaves no weights to begin with",
}


def refusal(can: tuple[str, ...], name: str) -> str | None:
    """Why a run that `can` do so much (`fleet.views.snapshot`) can never take `name`; None when it can."""
    return None if name in can else _OTHERS.get(name)


def never(name: str, view: RunView) -> str | None:
    """Why the run can never take the command, whatever its state; None when it can."""
    # What is no command on runs, such as the menu of them, can always be asked.
    elsewhere = COMMANDS[name].elsewhere if name in COMMANDS and view.launcher != "local" else ""
    return refusal(view.can, name) or elsewhere or None


def objection(name: str, view: RunView) -> str | None:
    """Why the command means nothing for the run as it stands, in words; None when it does."""
    command = COMMANDS[name]
    if against := never(name, view):
        return against
    if command.states is not None and view.state not in command.states:
        return command.why_not.get(view.state, f"it is {view.state}")
    if command.begun and view.job_waits:
        # That may last for days.
        return f"its job has not begun ({view.job_waits}); stop takes it from the queue"
    return None


def is_done_already(name: str, view: RunView) -> bool:
    """Whether the run does already what the command asks; one that parks can still be stopped for good."""
    return view.state in COMMANDS[name].already and not (name == "stop" and view.parking)


def is_applicable(name: str, view: RunView, finding: Finding | None = None) -> bool:
    """Whether the command would do something to `view`; `finding` is the one that keys for findings would apply to.

    What is no command on runs, such as the opening of a tab, always would.
    """
    command = COMMANDS.get(name)
    if command is None:
        return True
    foreign = "foreign" in view.flags
    if name == "adopt" or (foreign and command.ours):
        return foreign and name == "adopt"
    if objection(name, view) is not None or is_done_already(name, view):
        return False
    if command.on_finding:
        return _helps(name, finding)
    if name == "try":
        return refusal(view.can, "branch") is None and (view.last_checkpoint is not None or bool(view.trials))
    if name == "pause":
        return not view.pausing
    if name == "evaluate":
        return view.last_checkpoint is not None
    if name == "watch":
        # Its tab saves a first checkpoint of one that trains, and says of all others what there is.
        saved = view.last_checkpoint is not None or view.state not in OVER
        return saved and not foreign and refusal(view.can, "evaluate") is None
    if name == "resume":
        # One that ended before its first checkpoint begins anew, and in the queue it takes its place again.
        return view.state in _HELD | OVER or view.pausing or view.restart is not None
    return name != "resume with" or _has_begun_somewhere(view)


def _helps(name: str, finding: Finding | None) -> bool:
    if finding is None or finding.state == "cleared":
        return False
    if name == "apply":
        return finding.applicable
    return name != "set advice" or bool(finding.advice_set)


def _has_begun_somewhere(view: RunView) -> bool:
    """What is over goes on from a checkpoint; only a command may begin again without one."""
    return view.last_checkpoint is not None or "checkpoint" not in view.can
