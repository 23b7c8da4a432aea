"""`ent-coef`: randomness pays more than reward, by SAC's entropy coefficient or by PPO's.

SAC tunes its own until the policy is as random as `target_entropy` asks. Healthy ones fall from their start, or rise a
little; where the policy cannot be made so random (actions at their bounds, a target too high), it grows for ever. The
levels are chosen and not measured.

That of PPO is set. Too large a one shows in three things together: it is far above any usual one, as the settings say
or the log's losses tell; the policy stays about as random as it was untrained; and the return does not rise. None of
them alone is trouble: a policy stays random where nothing was found yet, and a bonus that the task outweighs does no
harm. A bonus that the settings themselves have is told of after twelve updates without a rise; what losses tell, also
of one that the settings do not have, waits until trends may be judged. How it compares with the policy's loss says
nothing, since that is near zero whatever its gradient is: that entropy stays where it is says which of the two is
stronger. Of Gaussian actions, which a bonus widens for ever and whose bounds may make that harmless, `policy-std`
speaks.
"""

from __future__ import annotations

import math

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.events.metrics import spoken
from mission_tui.fleet.health.doing_well import Success
from mission_tui.fleet.health.phrases import rounded
from mission_tui.fleet.health.rule import Explanation, Hysteresis, Row, Rule, RuleContext
from mission_tui.fleet.health.usual_settings import CRITIC_LOSS, ENTROPY_COEF, STILL_RANDOM, bonus_words
from mission_tui.fleet.windows import Window

TAGS = (ENTROPY_COEF, "train/ent_coef_loss", "train/actor_loss", CRITIC_LOSS, "rollout/ep_rew_mean")
RATIO, LOSS = "policy/entropy_ratio", "train/entropy_loss"
STDS = ("policy/std", "train/std")
PPO_TAGS = (RATIO, LOSS, "train/policy_gradient_loss", "train/loss", "rollout/ep_rew_mean")
EVIDENCE = 8
NEEDED, LOOKS = 12, 16


class EntropyCoefficient(Rule):
    """One attempt's rule; rows of neither algorithm change nothing."""

    id = "ent-coef"

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._limits = limits = context.limits.ent_coef
        self._start: float | None = None
        self._rows = Window[Row](EVIDENCE)
        self._high = Hysteresis(limits.updates, limits.updates)
        self._worst = Hysteresis(limits.updates, limits.updates)
        self._bonus = _Bonus(context)

    def judge(self, row: Row) -> Severity | None:
        """SAC's: warning above 10 x its first value in 5 rows, critical above 100 x, until it is below 5 x again."""
        coefficient, limits = row.metrics.get(ENTROPY_COEF, math.nan), self._limits
        if CRITIC_LOSS not in row.metrics:
            return self._bonus.judge(row) if self._start is None else self._severity()
        if 0.0 < coefficient < math.inf:
            self._start = self._start or coefficient
            self._rows.append(row)
            times = coefficient / self._start
            self._high.update(over=times > limits.warning, calm=times < limits.leave)
            self._worst.update(over=times > limits.critical, calm=times < limits.warning)
        return self._severity()

    def explain(self, severity: Severity) -> Explanation:
        """How far it has come, and what the reward counts for beside it."""
        if self._start is None:
            return self._bonus.explain(severity)
        row, start, limits = self._rows[-1], self._start, self._limits
        coefficient = row.metrics[ENTROPY_COEF]
        return Explanation(
            sentence=f"entropy coefficient is {rounded(coefficient)}, {rounded(coefficient / start)} x its start of "
            f"{rounded(start)}: randomness pays more than reward",
            cause="the policy cannot be made as random as target_entropy asks, often because its actions lie at their "
            "bounds",
            advice="set a lower target_entropy, or a fixed ent_coef, and look at the scale of actions and rewards",
            evidence=tuple(it.evidence(*TAGS) for it in self._rows),
            signal=ENTROPY_COEF,
            threshold=(limits.critical if severity == "critical" else limits.warning) * start,
            window=limits.updates,
        )

    def _severity(self) -> Severity | None:
        if self._worst.on:
            return "critical"
        return "warning" if self._high.on else None


class _Bonus:
    """PPO's, which is no more than a setting."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._success = Success.shared(context)
        self._random, self._poor, self._stays = (Hysteresis(NEEDED, LOOKS) for _ in range(3))
        self._rows = Window[tuple[Row, float]](EVIDENCE)
        self._most = 0.0

    def judge(self, row: Row) -> Severity | None:
        """Warning while the policy is about as random as untrained, with a bonus that nobody sets, and the return does
        not rise; information while it does. Until trends may be judged only of a bonus that the settings say, and of a
        return that does not even seem to rise.

        A task that is solved, or whose return holds still at its best, needs no better policy.
        """
        success, losses, warm = self._success, self._context.losses, self._context.returns.warm
        success.update(row)
        share = self._share(row)
        if share is None:
            return None
        self._rows.append((row, share))
        self._random.update(over=share >= STILL_RANDOM, calm=share < STILL_RANDOM)
        done = success.solved or success.at_ceiling
        # A rise that chance may have made is none, but excuses a bonus that is set before trends may be judged.
        fine = done or (success.rises_now and success.gained)
        self._poor.update(over=not fine, calm=fine)
        if losses.sets_bonus and not warm:
            self._stays.update(over=not (fine or success.may_rise), calm=fine or success.may_rise)
        if not (self._random.on and (warm or self._stays.on) and (losses.large_bonus or losses.unknown_bonus)):
            return None
        if self._poor.on:
            return "warning"
        return None if done else "info"

    def explain(self, severity: Severity) -> Explanation:
        """How random the policy still is, and what is paid for it."""
        row, share = self._rows[-1]
        most = "its maximum" if RATIO in row.metrics else "the most in this log"
        course = "the return still rises" if severity == "info" else "the return does not rise"
        losses = self._context.losses
        cause, advice, assignments = losses.unknown_bonus or bonus_words(losses)
        return Explanation(
            sentence=f"after {row.update:,} updates the policy chooses almost at random, with an entropy at "
            f"{share:.0%} of {most}, and {course}",
            cause=cause,
            advice=advice,
            advice_set=assignments,
            evidence=tuple(it.evidence(*PPO_TAGS) | {"share": spoken(round(part, 4))} for it, part in self._rows),
            signal=RATIO if RATIO in row.metrics else LOSS,
            threshold=STILL_RANDOM if RATIO in row.metrics else -STILL_RANDOM * self._most,
            window=LOOKS,
        )

    def _share(self, row: Row) -> float | None:
        """The entropy as a share of the largest there can be, or there was in this log; None of Gaussian actions."""
        metrics = row.metrics
        ratio, loss = metrics.get(RATIO), metrics.get(LOSS, math.nan)
        if STDS[0] in metrics or STDS[1] in metrics:
            return None
        if ratio is None and -math.inf < loss < 0.0:
            self._most = max(self._most, -loss)
            ratio = -loss / self._most
        return ratio if ratio is not None and math.isfinite(ratio) else None
