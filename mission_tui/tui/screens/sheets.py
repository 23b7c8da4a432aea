"""Sheets: the base of every question and answer over the screen, a frame with a title, lines that scroll, and a hint.
And those that only show something: the help, what happened while nobody looked, an evaluation, a command's output, an
error.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Literal, TypeVar

from msgspec import Struct
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen
from textual.strip import Strip

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.text import clean
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import Evaluated, Progress
from mission_tui.ipc.requests import Evaluate
from mission_tui.present import numbers
from mission_tui.present.run_state import FLAG_SENTENCES, state_word
from mission_tui.run_module import module_words
from mission_tui.tui.actions import ACTIONS, IN_SHEETS, Action, Move, Place, key_label, launches, offered
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.glyphs import OUTCOME_SHAPES, SEVERITY_SHAPES, STATE_SHAPES, bar
from mission_tui.tui.drawing.strips import Part, fit, key_at, line, literal, whole_hints, wrap
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.state.news import Away, Message, RunNews
from mission_tui.tui.state.presets import PresetChoice, by_key
from mission_tui.tui.state.run_status import shape, state_style
from mission_tui.tui.widgets.lines import ScrollLines
from mission_tui.tui.widgets.meters import NORMAL

Answer = TypeVar("Answer")

SCROLLING: tuple[Binding, ...] = tuple(
    Binding(keys, f"scroll_to('{how}')", how)
    for keys, how in (
        ("up,k", "up"),
        ("down,j", "down"),
        ("pageup", "page_up"),
        ("pagedown", "page_down"),
        ("home", "first"),
        ("end", "last"),
    )
)
"""The keys that scroll long content, by `action_scroll_to`."""


def keys_of(actions: Iterable[Action]) -> list[Binding]:
    """The keys of `actions`, as the table has them."""
    return [Binding(key, action.call, action.label, show=False) for action in actions for key in action.keys]


class Sheet(ModalScreen[Answer], inherit_bindings=False):
    """Subclasses give `lines`; Escape turns away with None, and so does `q`, which never leaves from here."""

    CSS_PATH: ClassVar = ["sheet.tcss"]
    CHROME: ClassVar[int] = 6
    SCROLLS: ClassVar[str] = "↑ ↓ scroll"
    """What the hint says besides, where not all lines are in sight."""
    AUTO_FOCUS = ""
    surprises: ClassVar[bool] = False
    """Whether it comes where a line to type into comes as well: what was typed for that acts on nothing here."""
    drawn = False
    """Whether it has come to its place: painted before, it would be seen to jump."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "turn_away", "back"),
        *SCROLLING,
        *keys_of(IN_SHEETS),
    ]

    def __init__(self, title: str, hint: str) -> None:
        super().__init__()
        self._title = literal(title)
        self._hint = hint
        self._more = False

    def compose(self) -> ComposeResult:
        """The frame around lines and hint."""
        with Vertical(id="sheet"):
            yield ScrollLines(self._title_line, id="sheet-title")
            yield from self.content()
            yield HintLine(self._hints, id="sheet-hint")

    def _title_line(self, width: int) -> list[Strip]:
        return [line([(fit(self._title, width).rstrip(), colours.BOLD)], width)]

    def on_resize(self) -> None:
        """Long content scrolls within what the frame, the title and the hint leave of the screen."""
        for widget in self.query("#sheet-lines, #sheet-choices"):
            widget.styles.max_height = max(1, self.size.height - self.CHROME)
        if not self.drawn:
            self.call_after_refresh(self._come_up)
        self.call_after_refresh(self._look_for_more)

    def _look_for_more(self) -> None:
        """Say that lines scroll where not all are in sight: nobody may agree to what they did not know was there."""
        more = any(widget.place for widget in self.query("#sheet-lines").results(ScrollLines))
        if more != self._more:
            self._more = more
            self.hint(self._hint)

    def _hints(self) -> str:
        told = not self._more or not self.SCROLLS or "scroll" in self._hint
        return self._hint if told else f"{self._hint}   {self.SCROLLS}"

    def _come_up(self) -> None:
        self.drawn = True
        self.refresh(layout=True)

    def content(self) -> ComposeResult:
        """What lies between title and hint."""
        yield ScrollLines(self.lines, id="sheet-lines")

    def lines(self, width: int) -> list[Strip]:
        """The lines for `width` cells."""
        return []

    def hint(self, text: str) -> None:
        """Say something else at the bottom."""
        self._hint = text
        self.query_one("#sheet-hint", ScrollLines).redraw()

    def refill(self) -> None:
        """Draw the lines anew; there may be more or fewer of them."""
        lines = self.query_one("#sheet-lines", ScrollLines)
        lines.redraw()
        lines.refresh(layout=True)

    def action_scroll_to(self, how: Move) -> None:
        """Scroll long content."""
        self.query_one("#sheet-lines", ScrollLines).move(how)

    def action_turn_away(self) -> None:
        """Back one layer, without an answer."""
        self.dismiss(None)


class HintLine(ScrollLines):
    """`said` gives the words; hints in them are two blanks apart and begin with their key."""

    def __init__(self, said: Callable[[], str], *, id: str) -> None:  # noqa: A002 - Textual's own parameter name
        super().__init__(lambda width: [line([(whole_hints(said(), width), colours.QUIET)], width)], id=id)
        self._said = said

    def on_click(self, event: events.Click) -> None:
        """A click presses the key."""
        if (key := key_at(whole_hints(self._said(), self.size.width), event.x)) is not None:
            self.app.simulate_key(key)


def still_open(screen: Screen[Any]) -> bool:
    """False as soon as it was left: for a while it is attached without its widgets, and none of them can be drawn."""
    return screen.is_attached and screen in screen.app.screen_stack


class ErrorScreen(Sheet[None]):
    """Also written to Textual's log, for those who run with its console."""

    def __init__(self, error: Exception) -> None:
        super().__init__("Something went wrong in the screen; all runs go on", "Esc back")
        self._said = traceback.format_exception(error)

    def on_mount(self) -> None:
        """Leave a trace."""
        self.log.error("".join(self._said))

    def lines(self, width: int) -> list[Strip]:
        """The error, then where it came from, newest first."""
        said = [text for block in reversed(self._said) for raw in block.splitlines() for text in wrap(raw, width)]
        return [line([(text, colours.ALARM if at == 0 else colours.QUIET)], width) for at, text in enumerate(said)]


_SEVERITIES = {"critical": "critical: act now", "warning": "warning: look at it", "info": "information"}

_METRICS: tuple[tuple[str, str], ...] = (
    ("return", "mean sum of rewards of the last 100 episodes: what the policy is trained for"),
    ("length", "mean steps of those episodes"),
    ("st/s", "environment steps per second of the newest update, over all environments"),
    ("KL", "how far an update moved the policy (approx_kl); 0.005 to 0.02 is usual with a clip range of 0.2"),
    ("u", "KL divided by half of the squared clip range: 1 is as far as PPO means to go, whatever the clip range"),
    ("clip", "share of samples whose probability left the clip range; 0.05 to 0.3 is usual"),
    ("H", "entropy over that of the first update: 1 explores as at first, 0 always does the same"),
    ("std", "standard deviation of continuous actions: it falls as the policy becomes sure"),
    ("EV", "explained variance: 1 where values predict returns, 0 where they know no more than the mean"),
    ("lr", "the learning rate of the newest update"),
    ("value loss", "mean squared error of the values, in units of squared rewards"),
    ("gradient", "norm of the gradient before it is clipped to max_grad_norm"),
    ("pressure", "of an update: gradient steps x learning rate, over 16 x 2.5e-4; tuned settings have 5 to 160"),
    ("EMA", "moving average of a curve; } smooths more, { less"),
)
"""By the short name that stands on the screen."""

_TOLD = {"information": colours.INK, "warning": colours.WARN, "error": colours.ALARM}

_TITLES = {
    "start": "start",
    "act": "act on the chosen or marked runs",
    "look": "look",
    "watch": "in the tab watch",
    "move": "move",
    "screen": "this screen",
}
_KEYS_WIDTH, _LABEL_WIDTH = 14, 21
_NOTES = (
    "A finding's advice stands below its cause; h leads there from anywhere, a applies it.",
    f"A mostly idle GPU is fine: {NORMAL}, because stepping its environments takes longer than learning.",
    "Several runs at once use the rest of a GPU.",
)
_EPISODES, _REEL_EPISODES = 100, 30
REEL = ("best", "median", "worst")
_MOST_LINES = 2000
_MOST_LETTERS = 1 << 18
"""All of it is folded again whenever there is more."""
_READ_BYTES = 1 << 16
_PACE_S = 0.1


class HelpScreen(Sheet[None]):
    """Read from the table of actions, so that it always matches the keys."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("question_mark,f1", "turn_away", "back")]

    def __init__(self, place: Place | Literal["compare"], presets: Sequence[PresetChoice], *, readonly: bool) -> None:
        super().__init__("Keys, then symbols and numbers (End)", "Esc back   ↑ ↓ scroll   Shift-drag selects text")
        self._place = place
        self._presets = presets
        self._readonly = readonly

    def lines(self, width: int) -> list[Strip]:
        """Groups of actions; presets stand where launching is explained."""
        rows: list[list[Part]] = []
        for group, title in _TITLES.items():
            actions = [action for action in offered(self._place, readonly=self._readonly) if action.group == group]
            if actions:
                rows += [[], [(title, colours.LIVE)]] if rows else [[(title, colours.LIVE)]]
            for action in actions:
                named = action.help if group == "move" else f"{action.name}: {action.help}"
                rows += self._preset_rows(width) if action.name == "launch" else _rows(_keys(action), named, width)
        for title, told in (("symbols", _symbols()), ("what the numbers are", iter(_METRICS))):
            rows += [[], [(title, colours.LIVE)]]
            for sign, meaning in told:
                rows += _rows(sign, meaning, width)
        rows += [[], [("good to know", colours.LIVE)]]
        rows += [[(f"  {text}", colours.INK)] for note in _NOTES for text in wrap(note, width - 2)]
        return [line(parts, width) for parts in rows]

    def _preset_rows(self, width: int) -> list[list[Part]]:
        rows: list[list[Part]] = []
        here = {key: it for key, it in by_key(self._presets).items() if launches(key, self._place)}
        for key, preset in here.items():
            about = f": {preset.description}" if preset.description else ""
            start, ask = f"start {preset.name} at once", f"ask about {preset.name} of {preset.from_folder}"
            rows += _rows(key, f"{ask if preset.from_folder else start}{about}", width)
        launch = next(action for action in ACTIONS if action.name == "launch")
        return rows or _rows("1-9 0 P", launch.help, width)


def _symbols() -> Iterator[tuple[str, str]]:
    """Each sign with its meaning: states, ends, severities, marks of a row."""
    for word, sign in STATE_SHAPES.items():
        if word != "ended":
            yield sign, word
    for outcome, sign in OUTCOME_SHAPES.items():
        yield sign, f"ended: {outcome}"
    for severity, sign in SEVERITY_SHAPES.items():
        yield sign, _SEVERITIES[severity]
    yield "ok ·", "nothing asks for action; · there is information, h shows it"
    yield "unmoved", "the policy no longer moves: nothing to do if the task is solved, else h says why"
    yield (
        "stuck",
        "no finding yet, but it always chooses the same action or has stopped moving, and its return has not risen",
    )
    yield (
        "hangs?",
        "its rollout or update goes on for unusually long; `hang` waits for minutes before it is sure",
    )
    yield from FLAG_SENTENCES.items()
    yield "!", "beside a metric: beyond a limit now, not yet for long enough to be a finding"
    yield "(KL)", "acknowledged: it is known, and opens again if it gets worse"
    yield "✓", "marked: keys apply to all that are"
    yield ">", "chosen"


def _keys(action: Action) -> str:
    return " ".join(key_label(key) for key in action.keys)


def _rows(keys: str, said: str, width: int) -> list[list[Part]]:
    return [
        [(f"  {keys if at == 0 else '':<{_KEYS_WIDTH}}", colours.KEY), (text, colours.INK)]
        for at, text in enumerate(wrap(said, width - _KEYS_WIDTH - 2))
    ]


class AwayScreen(Sheet[None]):
    """A paragraph for each run, the last to end first; then the messages since the screen was opened, newest first.
    `best` are best returns with their updates, by run id.
    """

    def __init__(self, away: Away | None, best: Mapping[str, tuple[float, int]], told: Sequence[Message]) -> None:
        super().__init__("Messages of this screen" if away is None else away.title, "Esc back   ↑ ↓ scroll")
        self._away, self._best, self._told = away, best, told

    def lines(self, width: int) -> list[Strip]:
        """Name and standing, then what happened when, in order."""
        strips: list[Strip] = []
        if self._away is not None:
            ordered = {view.id: place for place, view in enumerate(self._away.worth_a_look)}
            for it in sorted(self._away.happenings, key=lambda it: ordered[it.view.id]):
                strips.append(line(self._head(it), width))
                for text in self._events(it, self._away.until_t):
                    strips += [line([(f"    {part}", colours.QUIET)], width) for part in wrap(text, width - 4)]
            if self._told:
                strips += [line([], width), line([("messages of this screen", colours.LIVE)], width)]
        return [*strips, *(line(parts, width) for it in reversed(self._told) for parts in _message_lines(it, width))]

    def _head(self, it: RunNews) -> list[Part]:
        view = it.view
        best = self._best.get(view.id)
        said = "" if best is None else f"  best return {numbers.reading(best[0])} at update {numbers.count(best[1])}"
        return [
            (f"{shape(view)} ", state_style(view)),
            (view.name, colours.BOLD),
            (f"  {state_word(view)}", state_style(view)),
            (said, colours.INK),
        ]

    def _events(self, it: RunNews, now: float) -> Iterator[str]:
        said = [(t, "restarted by itself after a failure") for t in it.restarts]
        said += [(t, "resumed by itself after a reboot") for t in it.reboots]
        said += [(t, "went on by itself in another job") for t in it.other_jobs]
        for finding in it.findings:
            over = "" if finding.state == "open" else " (over)"
            said.append((finding.first_t, f"{finding.severity}: {finding.sentence}{over}"))
        if it.ended_t is not None:
            said.append((it.ended_t, f"{state_word(it.view)}: {it.view.cause or 'no cause is known'}"))
        for t, words in sorted(said, key=lambda pair: pair[0]):
            yield f"{numbers.clock(t, now)}  {words}" if t > 0 else words


def _message_lines(it: Message, width: int) -> Iterator[list[Part]]:
    """When and what, the rows of a long sentence below each other."""
    head, style = f"{numbers.clock(it.t, it.t)}  ", _TOLD[it.severity]
    for at, text in enumerate(wrap(it.sentence, width - len(head))):
        yield [(head if at == 0 else " " * len(head), colours.QUIET), (text, style)]


class Episode(Struct, frozen=True):
    """An episode that plays alike again."""

    checkpoint: str
    seed: int


class EvaluationScreen(Sheet[Episode]):
    """Closing it does not end the evaluation; the result is then told in a toast. The answer is an episode of the reel
    that is to be seen again. Of `checkpoint`, else of the newest.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(name[0], f"play({name!r})", f"play the {name} again") for name in REEL
    ]

    def __init__(self, app_context: AppContext, view: RunView, checkpoint: str | None = None) -> None:
        what = f"Evaluate {view.name} from {checkpoint or view.last_checkpoint}"
        super().__init__(what, "Esc goes back; the evaluation goes on")
        self._app_context = app_context
        self._view = view
        self._checkpoint = checkpoint
        self._episodes = _EPISODES if checkpoint is None else _REEL_EPISODES
        self._progress = Progress(re=0, done=0, total=self._episodes)
        self._began_t = app_context.clock()
        self._result: dict[str, Any] | None = None
        self._trouble: str | None = None

    def on_mount(self) -> None:
        """Begin."""
        self._app_context.start(self._play())

    async def _play(self) -> None:
        run, shown, environ = self._view.id, self._view.name, self._app_context.origin["environ"]
        try:
            async for reply in self._app_context.stream(
                lambda id_: Evaluate(
                    id=id_,
                    run=run,
                    checkpoint=self._checkpoint,
                    episodes=self._episodes,
                    reel=True,
                    environ=environ,
                )
            ):
                if isinstance(reply, Progress):
                    self._progress = reply
                elif isinstance(reply, Evaluated):
                    self._result = reply.result
                if still_open(self):
                    self.refill()
        except MissionError as error:
            self._trouble = str(error)
        if not still_open(self):
            self._app_context.toast(
                f"{shown}: {self._trouble or _sentence(self._result)}", "error" if self._trouble else "information"
            )
            return
        known = {} if self._result is None else reel_in(self._result)
        self.hint("  ".join((*(f"{name[0]} plays the {name}" for name in known), "Esc back")))
        self.refill()

    def action_play(self, name: str) -> None:
        """Close it for one of its episodes."""
        found = {} if self._result is None else reel_in(self._result)
        if name in found and self._result is not None:
            self.dismiss(Episode(str(self._result.get("checkpoint")), found[name]["seed"]))

    def lines(self, width: int) -> list[Strip]:
        """A bar with time left, or the result, or why there is none."""
        if self._trouble is not None:
            return [line([(self._trouble, colours.ALARM)], width)]
        if self._result is not None:
            return [line(parts, width) for parts in result_rows(self._result, width)]
        done, total = self._progress.done, max(1, self._progress.total)
        elapsed_s = self._app_context.clock() - self._began_t
        left = numbers.duration(elapsed_s * (total - done) / done) if done else numbers.DASH
        tail = f" {done}/{total} episodes" + (f"  {left} left" if done < total else "")
        filled, rest = bar(done / total, width - len(tail))
        return [line([(filled, colours.LIVE), (rest, colours.TRACK), (tail, colours.INK)], width)]


def result_rows(result: dict[str, Any], width: int) -> list[list[Part]]:
    """The result as label and value, folded: mean with spread and interval, length, share won, outcomes, reel."""
    interval = result.get("ci95")
    chosen = "the likeliest action each time" if result.get("deterministic", True) else "actions drawn as in training"
    rows: list[tuple[str, str]] = [
        ("policy", f"{'deterministic' if result.get('deterministic', True) else 'stochastic'}: {chosen}"),
        ("return", _spread(result)),
        ("95 % CI of the mean", " to ".join(map(_reading, interval)) if interval else _without(result.get("episodes"))),
        (
            "episodes",
            f"{result.get('episodes', numbers.DASH)}, length {_reading((result.get('lengths') or {}).get('mean'))}",
        ),
    ]
    if isinstance(result.get("won"), float | int):
        between = numbers.share_words(result.get("won_ci95"))
        rows.append(("won", f"{numbers.percent(result['won'])}{f', 95 % CI {between}' if between else ''}"))
    outcomes = result.get("outcomes") or {}
    if outcomes:
        rows.append(
            ("outcomes", "  ".join(f"{name} {n}" for name, n in sorted(outcomes.items(), key=lambda pair: -pair[1])))
        )
    rows += [(f"{name} episode", reel_words(it)) for name, it in reel_in(result).items()]
    return [
        [(f"{label if at == 0 else '':<{_LABEL_WIDTH}}", colours.QUIET), (text, colours.INK)]
        for label, value in rows
        for at, text in enumerate(wrap(value, max(1, width - _LABEL_WIDTH)))
    ]


def _spread(result: Mapping[str, Any]) -> str:
    return numbers.spread_words(_reading(result.get("mean")), _reading(result.get("std")), result.get("episodes"))


def _without(episodes: object) -> str:
    return numbers.no_interval_words(episodes) if isinstance(episodes, int) else numbers.DASH


def reel_in(result: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The best, median and worst episode of an evaluation that has them, each with its seed; else none."""
    reel = result.get("reel")
    if not isinstance(reel, dict):
        return {}
    return {name: it for name in REEL if isinstance(it := reel.get(name), dict) and isinstance(it.get("seed"), int)}


def reel_words(it: Mapping[str, Any]) -> str:
    """One episode of a reel."""
    outcome = f", {clean(str(it['outcome']), 40)}" if it.get("outcome") else ""
    steps = _reading(it.get("steps"))
    return f"return {_reading(it.get('return'))} in {steps} steps{outcome}, seed {it['seed']}"


def _sentence(result: dict[str, Any] | None) -> str:
    if result is None:
        return "the evaluation ended without a result"
    spread = _spread(result)
    again = "; f in w plays its best, median and worst" if reel_in(result) else ""
    return f"evaluated: {spread} over {result.get('episodes')} episodes{again}"


def _reading(value: object) -> str:
    return numbers.reading(value) if isinstance(value, float | int) else str(value or numbers.DASH)


class OutputScreen(Sheet[None]):
    """The words after `mission-tui`, carried out for the runs in `root`."""

    def __init__(self, app_context: AppContext, words: Sequence[str], root: str) -> None:
        super().__init__(f"mission-tui {' '.join(words)}", "Esc ends it")
        self._app_context, self._words, self._root = app_context, list(words), root
        self._text = ""
        self._cut = self._due = False
        self._process: asyncio.subprocess.Process | None = None

    def on_mount(self) -> None:
        """Begin."""
        self._app_context.start(self._carry_out())

    def on_unmount(self) -> None:
        """End the command: its output is no longer shown."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGINT)

    async def _carry_out(self) -> None:
        try:
            self._process = process = await asyncio.create_subprocess_exec(
                *module_words("mission_tui"), *self._words,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
                env={**os.environ, "MISSION_TUI_RUNS": self._root, "NO_COLOR": "1"},
            )  # fmt: skip
        except (OSError, ValueError) as error:  # a line may have been pasted that no program can be given
            raise UsageError(f"this command could not be started: {error}") from error
        assert process.stdout is not None
        letters = codecs.getincrementaldecoder("utf-8")(errors="replace")
        while data := await process.stdout.read(_READ_BYTES):
            self._keep(self._text + letters.decode(data))
            if not self._due:
                self._due = True
                self.set_timer(_PACE_S, self._show)
        code = await process.wait()
        if still_open(self):
            self.hint("Esc back" if code == 0 else f"exit code {code}   Esc back")
        self._show()

    def _keep(self, text: str) -> None:
        """The newest lines of `text`, or as much as there may be of a line without an end."""
        kept = "\n".join(text.split("\n")[-_MOST_LINES:])[-_MOST_LETTERS:]
        self._cut = self._cut or len(kept) < len(text)
        self._text = kept

    def _show(self) -> None:
        self._due = False
        if still_open(self):
            self.refill()

    def lines(self, width: int) -> list[Strip]:
        """What it said so far."""
        if not self._text:
            return [line([("…", colours.QUIET)], width)]
        said = self._text.rstrip("\n").split("\n")
        earlier = [line([("earlier lines are not kept here; a shell shows all of them", colours.QUIET)], width)]
        return earlier * self._cut + [
            line([(part, colours.INK)], width) for raw in said for part in wrap(raw, width) or [""]
        ]
