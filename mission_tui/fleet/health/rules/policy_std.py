"""`policy-std`: Gaussian actions whose standard deviation has left its start far behind, either way.

Absolute limits would clash with tuned starts of 0.135 and 0.037, so all is relative to the start. Logs without a
deviation (SB2, CleanRL) give it away once their entropy is below zero, which no discrete policy's is: of d components
it fell by d x log(std / start). Under gSDE `train/std` is not the deviation of the actions, and nothing is judged.
"""

from __future__ import annotations

import math
import statistics
from typing import Literal

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.events.metrics import spoken
from mission_tui.fleet.health import phrases
from mission_tui.fleet.health.doing_well import CEILING_SHARE, Success
from mission_tui.fleet.health.rule import Explanation, Hysteresis, Row, Rule, RuleContext
from mission_tui.fleet.health.trust_region import far_too_high, u_of
from mission_tui.fleet.health.usual_settings import USUAL_ENTROPY_COEF
from mission_tui.fleet.windows import Window

LEAST, MOST, SB3, LOSS = "policy/std_min_ratio", "policy/std_max_ratio", "train/std", "train/entropy_loss"
TAGS = (LEAST, MOST, "policy/std", SB3, LOSS, "rollout/ep_rew_mean")
EVIDENCE = 8
UNIT_ENTROPY = 0.5 * math.log(2.0 * math.pi * math.e)
"""Entropy of a Gaussian of deviation 1: d components start with d times this."""
START_TOLERANCE = 0.03
LARGEST_LOG = 300.0
HIGH_PRESSURE = 16.0
LEAST_COEF = 0.001
FIRST_UPDATES = 32
"""Of a log without settings, in which its losses have to tell of a bonus that was there from the beginning."""

Side = Literal["narrow", "wide"]
_GRAVITY: dict[Severity | None, int] = {None: 0, "info": 1, "warning": 2, "critical": 3}


class PolicyStd(Rule):
    """One attempt's rule; updates without a deviation change nothing."""

    id = "policy-std"

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._limits = limits = context.limits.policy_std
        self._rows = Window[tuple[Row, float, float]](EVIDENCE)
        self._narrow, self._very_narrow, self._wide, self._very_wide = (
            Hysteresis(limits.updates, limits.updates) for _ in range(4)
        )
        self._success = Success.shared(context)
        self._unharmed = Success.shared(context, CEILING_SHARE)
        self._first_std = self._first_entropy = 0.0
        self._tag = LEAST
        self._side: Side = "narrow"
        self._bonus_first = False

    def judge(self, row: Row) -> Severity | None:
        """Warning below 0.1 or above 2 x the start, critical below 0.02 or above 5 x, for 5 updates.

        Of a task that is solved, or whose return holds still at its best, a narrow policy is the solution. While
        updates still move it and it earns ever more, or as much as it ever did, it is the way there, and information:
        a task that gets harder asks for ever more precision and pays no more. A wide one is information while the
        return rises or stays near its best, and critical only where it does not hold: actions that are cut off at their
        bounds may do as well. Under an entropy bonus that nobody sets, from the first updates on, it is a warning all
        the same: no return is known that was earned without it.
        """
        ratios = None if self.context.settings.use_sde else self._ratios(row)
        if ratios is None and not self._rows:
            return None
        self._success.update(row)
        self._unharmed.update(row)
        self._follow_bonus(row)
        if ratios is not None:
            self._rows.append((row, *ratios))
            self._count_row(*ratios)
        narrow, wide = self._of_narrow(), self._of_wide()
        self._side = "wide" if wide and _GRAVITY[wide] >= _GRAVITY[narrow] else "narrow"
        return wide if self._side == "wide" else narrow

    def explain(self, severity: Severity) -> Explanation:
        """Which way and how far; the cause is the entropy bonus and the update pressure of the run."""
        row, least, most = self._rows[-1]
        settings, limits, wide = self.context.settings, self._limits, self._side == "wide"
        if wide:
            level = limits.critical_high if severity == "critical" else limits.warning_high
        else:
            level = limits.critical_low if severity == "critical" else limits.warning_low
        advice, assignments = self._advice(row)
        return Explanation(
            sentence=self._sentence(most if wide else least, level),
            cause=self._bonus() + phrases.pressure_sentence(settings, phrases.learning_rate_of(row, settings)),
            advice=advice,
            advice_set=assignments,
            evidence=tuple(
                row.evidence(*TAGS) | {"least": spoken(round(least, 4)), "most": spoken(round(most, 4))}
                for row, least, most in self._rows
            ),
            signal=MOST if wide and self._tag == LEAST else self._tag,
            threshold=self._on_curve(level),
            window=limits.updates,
        )

    def _count_row(self, least: float, most: float) -> None:
        limits, back = self._limits, self._limits.leave
        self._narrow.update(over=least < limits.warning_low, calm=least > limits.warning_low * back)
        self._very_narrow.update(over=least < limits.critical_low, calm=least > limits.critical_low * back)
        self._wide.update(over=most > limits.warning_high, calm=most < limits.warning_high / back)
        self._very_wide.update(over=most > limits.critical_high, calm=most < limits.critical_high / back)

    def _follow_bonus(self, row: Row) -> None:
        """A bonus that settings have was there from the beginning; what losses tell first says so as soon as it can."""
        losses = self.context.losses
        first = losses.sets_bonus or (row.update <= FIRST_UPDATES and losses.bonus is not None)
        self._bonus_first = self._bonus_first or first

    def _of_wide(self) -> Severity | None:
        if not (self._wide.on or self._very_wide.on):
            return None
        if self._success.solved or (self._bonus_first and self._success.at_ceiling):
            return "info"
        if self._unharmed.near_best or self._success.rises_now:
            return "warning" if self._bonus_first else "info"
        return "critical" if self._very_wide.on and not self._success.holds else "warning"

    def _of_narrow(self) -> Severity | None:
        if not (self._narrow.on or self._very_narrow.on) or self._success.solved or self._success.at_ceiling:
            return None
        if (self._success.rises_now or self._success.near_best) and self._moves:
            return "info"
        return "critical" if self._very_narrow.on else "warning"

    @property
    def _moves(self) -> bool:
        """Whether updates still change what the policy does. A return also rises where ever smaller actions cost ever
        less, by updates that do nothing but narrow them.
        """
        us = [u for row, *_ in self._rows if (u := u_of(row, self.context.settings)) is not None]
        return bool(us) and statistics.median(us) >= self.context.limits.policy_frozen.u

    def _ratios(self, row: Row) -> tuple[float, float] | None:
        """Smallest and largest deviation over its start, from whatever this trainer says of them."""
        metrics = row.metrics
        least = metrics.get(LEAST)
        if least is not None:
            self._tag = LEAST
            most = metrics.get(MOST, least)
            return (least, most) if math.isfinite(least) and math.isfinite(most) else None
        std = metrics.get(SB3)
        if std is not None:
            self._tag = SB3
            if not 0.0 < std < math.inf:
                return None
            self._first_std = self._first_std or std
            return std / self._first_std, std / self._first_std
        loss = metrics.get(LOSS)
        return None if loss is None or not math.isfinite(loss) or self._tag == SB3 else self._by_entropy(-loss)

    def _by_entropy(self, entropy: float) -> tuple[float, float] | None:
        self._first_entropy = self._first_entropy or entropy
        components = self._components()
        if entropy >= 0.0 or components is None:
            return None
        self._tag = LOSS
        ratio = math.exp(max(-LARGEST_LOG, entropy - self._first_entropy) / components)
        return ratio, ratio

    def _components(self) -> int | None:
        """How many components of deviation 1 the first entropy was made of; None if it was not."""
        if not 0.0 < self._first_entropy < LARGEST_LOG:
            return None
        count = round(self._first_entropy / UNIT_ENTROPY)
        fits = count > 0 and abs(self._first_entropy / (count * UNIT_ENTROPY) - 1.0) <= START_TOLERANCE
        return count if fits else None

    def _on_curve(self, level: float) -> float | None:
        """Where `level` lies on the curve of the signal; None beyond all numbers."""
        if self._tag == SB3:
            return level * self._first_std if level * self._first_std < math.inf else None
        components = self._components() if self._tag == LOSS else None
        return level if components is None else -(self._first_entropy + components * math.log(level))

    def _sentence(self, ratio: float, level: float) -> str:
        way = "more" if self._side == "wide" else "less"
        return (
            f"the actions' standard deviation is {phrases.rounded(ratio)} x its start, {way} than {level:g} x, for "
            f"{self._limits.updates} updates"
        )

    def _bonus(self) -> str:
        coef = self.context.settings.ent_coef
        if coef is None:
            told = self.context.losses.told_bonus
            return f"{told}, which rewards wide actions; " if told and self._side == "wide" else ""
        if self._side == "wide":
            return f"ppo.ent_coef = {coef:g} rewards wide actions; " if coef else ""
        return f"ppo.ent_coef = {coef:g} does not keep actions wide; " if coef else "there is no entropy bonus; "

    def _advice(self, row: Row) -> tuple[str, tuple[str, ...]]:
        settings = self.context.settings
        coef = settings.ent_coef
        if self._side == "wide" and coef:
            return "lower the entropy bonus", (f"ppo.ent_coef={coef / 10.0:.2g}",)
        if self._side == "wide" and self.context.losses.bonus is not None:
            return "lower the entropy bonus", (f"ppo.ent_coef={USUAL_ENTROPY_COEF:g}",)
        if (usual := far_too_high(settings, row)) is not None:
            return usual
        pressure = phrases.pressure_of(settings, phrases.learning_rate_of(row, settings))
        if self._side == "narrow" and coef is not None and (pressure is None or pressure < HIGH_PRESSURE):
            wanted = max(LEAST_COEF, 3.0 * coef)
            return "go back to an earlier checkpoint, and raise the entropy bonus", (f"ppo.ent_coef={wanted:.2g}",)
        return "go back to an earlier checkpoint with half the learning rate", phrases.halved_learning_rate(
            settings, row
        )
