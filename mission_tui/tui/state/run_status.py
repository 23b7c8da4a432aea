"""How a run stands, in the words and colours that lists, panes and headlines share, and the few metrics that stand
beside its return.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import structs
from rich.style import Style

from mission_tui.fleet.events.findings import POLICY_FROZEN, Finding, stories
from mission_tui.fleet.events.outcome import ALIVE, OVER
from mission_tui.fleet.events.processes import RunFlag
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.present import numbers
from mission_tui.present.run_state import asks_for_action, stands_still, state_word, stuck_s, time_left
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.glyphs import OUTCOME_SHAPES, SEVERITY_SHAPES, STATE_SHAPES
from mission_tui.tui.drawing.strips import Part, wrap

_VITALS = (
    ("KL", "train/approx_kl"),
    ("clip", "train/clip_fraction"),
    ("H", "policy/entropy_ratio"),
    ("std", "policy/std"),
    ("EV", "train/explained_variance"),
    ("lr", "train/learning_rate"),
    ("value loss", "train/value_loss"),
    ("critic loss", "train/critic_loss"),
    ("actor loss", "train/actor_loss"),
    ("ent coef", "train/ent_coef"),
    ("exploration", "rollout/exploration_rate"),
    ("grad", "train/grad_norm"),
)
_COLUMNS = {"rollout/ep_rew_mean": "return", "rollout/ep_len_mean": "length", "timesteps": "steps"}
_SHORT_RULES: Mapping[str, str] = {
    "after-change": "change",
    "entropy-collapse": "entropy",
    "kl-persistent": "KL",
    "kl-spike": "KL spike",
    "kl-creep": "KL creep",
    "policy-frozen": "unmoved",  # a run is frozen where its processes are
    "clip-fraction": "clip",
    "policy-std": "std",
    "actions-at-bound": "bounds",
    "explained-variance": "EV",
    "value-loss": "value",
    "ent-coef": "ent_coef",
    "grad-norm": "gradient",
    "reward-oscillation": "swings",
    "throughput": "slow",
    "thread-contention": "threads",
    "gpu-idle": "GPU idle",
    "out-of-memory": "memory",
    "nan": "NaN",
    "resume-probe": "resume",
    "checkpoint-age": "checkpoint",
}
_RANK = {"critical": 0, "warning": 1, "info": 2}


def shape(view: RunView) -> str:
    """The run's one-cell shape; it tells states apart without colour."""
    return OUTCOME_SHAPES.get(view.outcome or "" if view.state == "ended" else "", STATE_SHAPES[view.state])


def state_style(view: RunView) -> Style:
    """The colour that goes with `state_word`."""
    if view.unheard_since is not None:
        return colours.QUIET
    if view.state == "ended":
        return colours.outcome_style(view.outcome or "")
    if view.pausing:
        return colours.PAUSED
    if view.state == "running" and view.phase in ("update", "saving"):
        return colours.UPDATE
    return colours.state_style(view.state)


def update_share(view: RunView) -> float | None:
    """The share of the newest update's time that went into training rather than collecting."""
    if view.rollout_s is None or view.update_s is None or view.rollout_s + view.update_s <= 0:
        return None
    return view.update_s / (view.rollout_s + view.update_s)


def open_findings(view: RunView) -> tuple[Finding, ...]:
    """Findings that nobody has dealt with, without the symptoms of others, worst first; among equals what somebody's
    change brought about before what has no such cause, then the newest.
    """
    return _worst_first(finding for finding in stories(view.findings) if finding.state == "open")


def _worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda it: (_RANK[it.severity], not it.undo, -it.last_update)))


def alarms(view: RunView) -> tuple[Finding, ...]:
    """Open findings that need action, in the order of `open_findings`."""
    return _worst_first(asks_for_action(view))


def headline_finding(view: RunView) -> Finding | None:
    """The finding to show where there is room for one; information only of a run that trains."""
    shown = alarms(view) or (open_findings(view) if view.state == "running" else ())
    return next(iter(shown), None)


def severity_shape(finding: Finding) -> str:
    """One cell that tells severities apart without colour; a small dot where no action is needed."""
    return SEVERITY_SHAPES[finding.severity] if finding.state == "open" else "·"


def finding_word(finding: Finding) -> tuple[str, Style]:
    """How bad an open finding is; of any other, what became of it."""
    if finding.state == "open":
        return finding.severity, colours.severity_style(finding.severity)
    return finding.state, colours.QUIET


def finding_span(finding: Finding, now: float, *, over: bool = False) -> str:
    """When it began and how long it lasted: `since 03:12, update 1,204`, `21:40-21:52, updates 310-342`.

    `over`: its run is, so that what is still open lasted to the end.
    """
    first, last = numbers.count(finding.first_update), numbers.count(finding.last_update)
    if finding.state != "cleared" and not over:
        since = f"{numbers.clock(finding.first_t, now)}, " if finding.first_t > 0 else ""
        return f"since {since}update {first}"
    times = ""
    if finding.first_t > 0 and finding.last_t > 0:
        began, ended = numbers.clock(finding.first_t, now), numbers.clock(finding.last_t, now)
        times = f"{began}, " if began == ended else f"{began}-{ended}, "
    return f"{times}update {first}" if first == last else f"{times}updates {first}-{last}"


_CAN_WAIT: frozenset[RunFlag] = frozenset({"foreign", "keeperless", "slow-start"})
"""Flags of a run that trains and can be reached: a critical finding matters more while it does."""


def badge(view: RunView) -> tuple[str, Style]:
    """The health of a run in a few letters: a flag, what is wrong, why it waits, or `ok`; a dash when unknown.

    A flag comes before what is wrong with the learning, unless that is critical and the flag can wait.

    What is acknowledged stands in brackets; a silenced rule says nothing, and information leaves the `ok` with a dot.
    Until the rule of hangs is sure, a run whose rollout or update goes on for unusually long is `hangs?`: what is
    wrong with its learning can wait.
    Between two findings a run that stands still is `stuck`, and one whose policy no longer moves is `unmoved`, though
    nothing is to be done if that is all it can learn.
    """
    asking = alarms(view)
    flags = [flag for flag in view.flags if flag != "failed-duty"]
    if asking and asking[0].severity == "critical" and view.state in ALIVE:
        flags = [flag for flag in flags if flag not in _CAN_WAIT]
    if flags:
        return f"▲ {flags[0]}", colours.ALARM
    if view.outcome == "failed":
        return f"▲ {view.kind or 'unknown'}", colours.ALARM
    if stuck_s(view) is not None and not (asking and asking[0].severity == "critical"):
        return "hangs?", colours.WARN
    if asking:
        worst = asking[0]
        count = str(len(asking)) if len(asking) > 1 else ""
        return f"{severity_shape(worst)}{count} {short_rule(worst)}", colours.severity_style(worst.severity)
    if view.failed_duties:
        return f"▲ {view.failed_duties[0].duty} failed", colours.WARN
    known = next((finding for finding in view.findings if finding.state == "acknowledged"), None)
    if known is not None:
        return f"({short_rule(known)})", colours.QUIET
    if view.state == "queued" or (view.state == "starting" and view.cause):
        # The state says that it waits, here or in the queue of an engine; the first words that fit are to say for what.
        cause = view.cause or numbers.DASH
        return cause.removeprefix("waits: ").removeprefix("waits ").removeprefix("for "), colours.QUIET
    if view.held is not None:
        vram = f"+{numbers.size(view.held.vram_bytes)}" if view.held.vram_bytes else "+GPU" if view.held.gpu else ""
        return f"holds {numbers.size(view.held.memory_bytes)}{vram}", colours.state_style(view.state)
    if stands_still(view):
        return "stuck", colours.WARN if view.state in ALIVE else colours.QUIET
    if view.update and (view.state in ALIVE or view.outcome == "finished"):
        known_open = open_findings(view)
        if any(it.rule == POLICY_FROZEN for it in known_open) and (view.goal is None or view.goal.reached is None):
            return rule_word(POLICY_FROZEN), colours.INK if view.state in ALIVE else colours.QUIET
        word = "ok ·" if known_open else "ok"
        return word, colours.GOOD if view.state in ALIVE else colours.QUIET
    return numbers.DASH, colours.QUIET


def short_rule(finding: Finding) -> str:
    """What the finding is about, in a word."""
    return rule_word(finding.rule)


def rule_word(rule: str) -> str:
    """The same of a rule's id."""
    return _SHORT_RULES.get(rule, rule)


def _in_the_reboot(view: RunView) -> str:
    """What a restart of the machine left of a run. How long it had lived is not known."""
    why = f": {view.cause}" if view.outcome in ("failed", "killed") else ""
    anew = "" if "checkpoint" in view.can else "; r starts it again"
    back = f"; r resumes from {view.last_checkpoint}" if view.last_checkpoint else anew or "; nothing was saved"
    return f"{view.outcome} in the reboot{why}{back}"


def remaining(view: RunView, now: float) -> str:
    """Time left of a live run, or until its restart; how long ago an ended one ended."""
    if view.restart is not None and view.restart.after != "request":
        return numbers.due(view.restart.due_t - now).removeprefix("in ")
    return numbers.ago(view.ended_t, now) if view.state in OVER else time_left(view)


def steps_words(view: RunView) -> str:
    """`45.1k/1M`; without a budget in steps what was trained; nothing where steps are not counted."""
    if view.total_timesteps:
        return f"{numbers.compact(view.timesteps)}/{numbers.compact(view.total_timesteps)}"
    return numbers.compact(view.timesteps) if view.timesteps else ""


def headline(view: RunView, now: float) -> str:
    """How an ended run ended and what can be done; what the run is about while it lives."""
    if view.restart is not None:
        place = f"({view.restart.number} of {view.restart.most})"
        if view.restart.after == "request":
            return f"{view.cause or 'waits for its turn'}; s cancels it"
        if view.restart.after != "failure":
            return f"{view.cause}; resumes by itself {place}: s cancels it"
        if remaining(view, now) == "now":
            return f"{view.cause}; its restart {place} is due: s cancels it"
        return f"{view.cause}; restarts in {remaining(view, now)} {place}: r starts it now, s cancels it"
    if view.state not in OVER:
        return view.cause or view.description or " on ".join(filter(None, (view.preset, view.env_id)))
    if view.rebooted and view.state == "ended":
        return f"{_in_the_reboot(view)}; {numbers.ago(view.ended_t, now)}"
    kind = f" ({view.kind})" if view.kind else ""
    saved = "; no checkpoint" if "checkpoint" in view.can else ""
    kept = f"; last checkpoint {view.last_checkpoint}" if view.last_checkpoint else saved
    lasted = ""
    if view.started_t is not None and view.ended_t is not None:
        lasted = f" after {numbers.duration(view.ended_t - view.started_t)}"
    word = state_word(view)
    said = f"{word}{kind}: {view.cause}" if view.cause else f"{word}{kind}"
    if view.cause and not kind and view.cause.startswith(f"{word} "):
        said = view.cause
    when = "" if view.ended_t is None else f"; {numbers.ago(view.ended_t, now)}{lasted}"
    return f"{said}{when}{kept}"


def headline_lines(view: RunView, now: float, width: int, most: int) -> list[str]:
    """The headline in at most so many lines: of a long cause the end is left out, and not what stands behind it."""
    lines, cause = wrap(headline(view, now), width), view.cause or ""
    while len(lines) > most and cause:
        cause = cause[: -sum(map(len, lines[most:]))].rstrip()
        lines = wrap(headline(structs.replace(view, cause=cause and f"{cause}…"), now), width)
    return wrap(headline(view, now), width, most) if len(lines) > most else lines


def key_metrics(view: RunView, width: int) -> list[Part]:
    """Short names and readings of those metrics that this run has, as many as fit `width` cells."""
    parts: list[Part] = []
    for name, tag in _VITALS:
        if tag in view.metrics:
            reading = numbers.reading_of(tag, view.metrics[tag])
            width -= len(name) + len(reading) + 1
            if width < 0:
                break
            parts += [(f"{name} ", colours.QUIET), (reading, colours.INK), ("   ", colours.INK)]
            width -= 3
    return parts


def column_title(tag: str) -> str:
    """The shortest name that is no other metric's, for a column of a table."""
    return _COLUMNS.get(tag) or next((name for name, known in _VITALS if known == tag), tag.rpartition("/")[2])
