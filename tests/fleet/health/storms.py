"""A run that has it all, and the supervisor that watches it: for tests that judging depends on the files alone.

A storm is a list of deeds; `Storm` does them on a clock of its own and writes what a trainer and a supervisor would
write. Its supervisor may be away for a while, begins anew from the files then, and reads rows early or late.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Literal

from msgspec import structs

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.journal import (
    AttemptEnded,
    AttemptStarting,
    ClockStepped,
    CoRunningChanged,
    FindingChanged,
    FleetEvent,
    RunCreated,
    RunFrozen,
    RunPaused,
    RunResumed,
    RunThawed,
)
from mission_tui.fleet.events.metrics import (
    CheckpointSaved,
    DutyFailed,
    Episodes,
    EvaluationDone,
    Metric,
    MetricRecord,
    SettingsChanged,
    TrainingEnded,
    TrainingStarted,
    UpdateDone,
)
from mission_tui.fleet.events.outcome import Stopped
from mission_tui.fleet.health import HealthJudge, cleared, is_news, judge_of
from mission_tui.fleet.history.run import RunHistory
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.spec import Spec
from tests.fleet.recorded import SPEC, STEPS

LATE_S = 2.0
"""How far behind the clock silence is judged."""

REGIMES: dict[str, dict[str, Metric]] = {
    "calm": {},
    "hot": {"train/approx_kl": 0.12, "train/clip_fraction": 0.6},
    "frozen": {"train/approx_kl": 1e-7, "train/clip_fraction": 0.0, "policy/entropy_ratio": 0.001},
    "broken": {"train/loss": "nan"},
    "blind": {"train/explained_variance": -0.9, "train/value_loss": 900.0, "train/grad_norm": 90.0},
    "mad": {"train/ratio_first": 0.5, "train/ratio_max": 40.0, "policy/std_max_ratio": 9.0, "train/approx_kl": "inf"},
    "bound": {"policy/actions_at_bound": 0.9, "policy/std_min_ratio": 0.01},
}
"""Values that some rule takes for trouble, over a calm row."""

SPECS: tuple[Spec, ...] = (
    structs.replace(SPEC, run=structs.replace(SPEC.run, total_timesteps=400 * STEPS)),
    change(SPEC, ["ppo.n_epochs=20", "keep.health.kl-persistent.warning=3.0"]),
)


HELD: dict[str, type[RunPaused | RunResumed | RunFrozen | RunThawed]] = {
    "hold": RunPaused,
    "go": RunResumed,
    "freeze": RunFrozen,
    "thaw": RunThawed,
}


@dataclass(frozen=True)
class Deed:
    """What happens next: `count` updates of `seconds` in `regime`, or something that takes `seconds`.

    Between two deeds no time passes by itself: those that take none happen at the same instant.
    """

    what: Literal[
        "update", "pause", "hold", "go", "freeze", "thaw", "company", "evaluation", "checkpoint", "unsaved", "set",
        "wait", "clock", "attempt", "away", "back", "look",
    ]  # fmt: skip
    count: int = 1
    seconds: float = 1.0
    regime: str = "calm"


@dataclass
class Storm:
    """The files of a run as they grow. `watcher` is None while the supervisor is away."""

    seed: int = 0
    t: float = 1000.0
    update: int = 0
    attempt: int = 0
    specs: dict[int, Spec] = field(default_factory=dict)
    records: list[MetricRecord] = field(default_factory=list)
    events: list[FleetEvent] = field(default_factory=list)
    died: dict[int, float] = field(default_factory=dict)
    watcher: Watcher | None = None

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.watcher = Watcher(self)
        self.say(RunCreated(len(self.events) + 1, self.t, "storm", "demo"))
        self.begin()

    def do(self, deed: Deed) -> None:
        """Do it; what only a supervisor can do does not happen while it is away."""
        match deed.what:
            case "update":
                for _ in range(deed.count):
                    self.row(deed)
            case "evaluation":
                self.write(EvaluationDone(len(self.records) + 1, self.attempt, self.update, 0, self.t, 1.0, 0.0, 5))
            case "checkpoint":
                self.write(CheckpointSaved(len(self.records) + 1, self.attempt, self.update, 0, self.t, "c", "time"))
            case "set":
                number, words = len(self.records) + 1, (f"ppo.learning_rate={deed.seconds}e-4",)
                self.write(SettingsChanged(number, self.attempt, self.update, 0, self.t, number, words))
            case "wait":
                self.wait(deed.seconds)
            case "unsaved":
                for _ in range(deed.count):
                    number = len(self.records) + 1
                    failed = DutyFailed(number, self.attempt, self.update, 0, self.t, "checkpoint", "no inodes", number)
                    self.write(failed)
                    self.t += deed.seconds
            case "clock":
                before, self.t = self.t, max(1.0, self.t + deed.seconds)
                if self.watcher is not None:
                    self.say(ClockStepped(len(self.events) + 1, self.t, self.attempt, self.t - before))
            case "away":
                self.watcher = None
            case "back":
                self.watcher = self.watcher or Watcher(self)
                self.watcher.read()
            case "look":
                if self.watcher is not None:
                    self.watcher.read()
            case _:
                self.ask(deed)

    def ask(self, deed: Deed) -> None:
        if self.watcher is None:
            return
        if deed.what == "company":
            self.say(CoRunningChanged(len(self.events) + 1, self.t, deed.count))
        elif deed.what == "pause":
            self.say(RunPaused(len(self.events) + 1, self.t, self.attempt))
            self.wait(deed.seconds)
            self.say(RunResumed(len(self.events) + 1, self.t, self.attempt))
        elif deed.what in HELD:
            self.say(HELD[deed.what](len(self.events) + 1, self.t, self.attempt))
        else:
            self.end(tidy=deed.count > 1, known=deed.regime == "calm")
            self.begin()

    def wait(self, seconds: float) -> None:
        """Time passes; a supervisor looks at the clock now and then."""
        for _ in range(4):
            self.t += seconds / 4
            if self.watcher is not None:
                self.watcher.tick(self.t)

    def row(self, deed: Deed) -> None:
        """One update, in `deed.regime`, with returns that rise and fall."""
        self.update += 1
        self.t += deed.seconds
        dice, seconds = self.dice, deed.seconds
        ret = 100.0 * math.sin(self.update / 17.0) + dice.gauss(0, 3)
        metrics: dict[str, Metric] = {
            "rollout/ep_rew_mean": ret,
            "rollout/ep_len_mean": 200.0 + 100.0 * math.cos(self.update / 23.0),
            "train/approx_kl": 0.01 * dice.lognormvariate(0, 0.4),
            "train/clip_fraction": 0.1,
            "train/clip_range": 0.2,
            "train/learning_rate": 3e-4,
            "train/entropy_loss": -0.6,
            "train/explained_variance": 0.7,
            "train/value_loss": dice.lognormvariate(0, 0.3),
            "train/grad_norm": 0.6,
            "train/ratio_first": 1e-7,
            "train/n_epochs_done": 4.0,
            "policy/entropy_ratio": 0.8,
        }
        metrics |= REGIMES[deed.regime]
        episodes = Episodes(8, (ret,) * 8, (200,) * 8, {"captured": 5, "timeout": 3})
        number = len(self.records) + 1
        phases = (0.75 * seconds, 0.25 * seconds, STEPS / seconds)
        steps = self.update * STEPS
        self.write(UpdateDone(number, self.attempt, self.update, steps, self.t, *phases, metrics, episodes))
        if self.watcher is not None and dice.random() < 0.5:
            self.watcher.read()

    def begin(self) -> None:
        """The next attempt, by its own spec, from some update before."""
        self.attempt += 1
        self.specs[self.attempt] = SPECS[self.attempt % 2]
        self.say(AttemptStarting(len(self.events) + 1, self.t, self.attempt))
        if self.watcher is not None:
            self.watcher.begin()
        self.t += 1.0
        self.update = max(0, self.update - 3)
        self.write(TrainingStarted(len(self.records) + 1, self.attempt, self.t, self.update))

    def end(self, *, tidy: bool, known: bool) -> None:
        """The attempt ends: with a last word of its trainer, or by a death that its keeper saw, or by nobody's word."""
        self.t += 0.5
        if tidy:
            number = len(self.records) + 1
            self.write(TrainingEnded(number, self.attempt, self.update, 0, self.t, "failed", "nan", "a nan"))
        if known:
            self.died[self.attempt] = self.t
        if self.watcher is not None:
            self.watcher.finish(self.died.get(self.attempt))
        self.say(AttemptEnded(len(self.events) + 1, self.t, self.attempt, Stopped(checkpoint="c")))

    def write(self, record: MetricRecord) -> None:
        self.records.append(record)

    def say(self, event: FleetEvent) -> None:
        self.events.append(event)
        if self.watcher is not None:
            self.watcher.history.apply(event)


class Watcher:
    """What a supervisor does about health: it reads, hears of breaks, looks at the clock, and journals news."""

    def __init__(self, storm: Storm) -> None:
        self.storm = storm
        self.history = RunHistory("storm", "/storm", None)
        for event in storm.events:
            self.history.apply(event)
        self.judge_anew()

    def begin(self) -> None:
        """Another attempt begins: what was open is over, as of the last row."""
        row = self.history.metrics.row
        for finding in list(self.history.journal.findings.values()):
            if finding.state == "open":
                self.journal(cleared(finding, *((row.update, row.t) if row is not None else (0, 0.0))))
        self.judge_anew()

    def judge_anew(self) -> None:
        """Judge the newest attempt from its first row."""
        self.read_to = self.breaks_told = 0
        attempt = self.history.journal.attempt
        self.judge: HealthJudge | None = judge_of(self.storm.specs[attempt]) if attempt else None

    def read(self) -> None:
        """Judge the rows that came."""
        records, self.read_to = self.storm.records[self.read_to :], len(self.storm.records)
        self.tell_breaks()
        for record in records:
            self.history.apply(record)
            if self.judge is not None and record.attempt == self.history.journal.attempt:
                for finding in self.judge.feed(record):
                    self.journal(finding)

    def tick(self, now: float) -> None:
        """A look at the clock, after a look at the rows."""
        self.read()
        self.silent(now - LATE_S)

    def finish(self, died_t: float | None) -> None:
        """The attempt has ended; its keeper's record says when."""
        self.read()
        if died_t is not None:
            self.silent(died_t)

    def silent(self, now: float) -> None:
        self.tell_breaks()
        for finding in self.judge.silence(now) if self.judge is not None else ():
            self.journal(finding)

    def tell_breaks(self) -> None:
        breaks = self.history.journal.breaks
        for t, cause in breaks[self.breaks_told :]:
            if self.judge is not None:
                self.judge.broken(t, cause)
        self.breaks_told = len(breaks)

    def journal(self, finding: Finding) -> None:
        if is_news(finding, self.history.journal.findings.get(finding.id)):
            self.storm.say(FindingChanged(len(self.storm.events) + 1, self.storm.t, finding))
