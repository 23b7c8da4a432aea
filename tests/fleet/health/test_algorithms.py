"""Other algorithms than PPO are told by their own tags, and judged by the rules that fit them and no others.

`algorithms/` holds short healthy runs of Stable-Baselines3 2.9 and sb3-contrib that were made for this: SAC, TQC and
TD3 on Pendulum, DQN and A2C on CartPole, of the last two every sixth and eighth row.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs
from msgspec.structs import replace

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.metrics import UpdateDone
from mission_tui.fleet.health import HealthJudge, Settings
from mission_tui.fleet.health.judge import ROUNDS, unfit
from mission_tui.fleet.health.rules import RULES
from mission_tui.fleet.health.settings import OTHERS, RETURNS_ALONE, critic_loss, other_called, recognize_algorithm
from mission_tui.fleet.specs.thresholds import HealthKeep
from mission_tui.records.logs.log import TrainingLog, recognize_in_rows
from mission_tui.records.logs.read import read_log

MADE = Path(__file__).parent / "algorithms"
LOGS = {name: read_log(MADE / f"{name.lower()}.csv") for name in ("SAC", "TQC", "TD3", "DQN", "A2C")}


def findings(log: TrainingLog, rows: tuple[UpdateDone, ...] | None = None) -> tuple[Finding, ...]:
    """What a judge of a program that is not ours says of `rows`, or of the log's own."""
    judge = HealthJudge(replace(log.settings, rollout=None), HealthKeep())
    for row in log.updates_done if rows is None else rows:
        judge.feed(row)
    return judge.findings


@pytest.mark.parametrize("name", LOGS)
def test_each_is_told_by_its_tags_and_a_healthy_run_has_no_warning(name: str) -> None:
    """TQC writes what SAC writes, and is its kin."""
    told = recognize_in_rows(LOGS[name].updates_done)
    assert told is not None
    assert told.algorithm is not None
    assert name in (told.algorithm.name, *told.algorithm.kin)
    assert other_called(name.lower()) is told.algorithm
    assert [it.rule for it in findings(LOGS[name]) if it.severity != "info"] == []


@pytest.mark.parametrize("name", LOGS)
def test_a_loss_that_is_not_finite_and_a_return_that_collapses_are_found(name: str) -> None:
    """Whatever the algorithm: its own rows, lengthened so that trends may be judged, then ruined."""
    log = LOGS[name]
    last, step = log.updates_done[-1], 200
    rows, critic = list(log.updates_done), critic_loss(dict.fromkeys(last.metrics, 0.0))
    assert critic is not None
    for n in range(1, 401):
        worse = max(0, n - 250)
        metrics = dict(last.metrics) | {
            "rollout/ep_rew_mean": 100.0 + min(n, 250) - 10.0 * worse,
            critic: 1.0 + 0.001 * (n % 7),
        }
        if worse > 60:
            metrics[critic] = 400.0
        if n == 400:
            metrics[critic] = "nan"
        at = {"update": last.update + n, "timesteps": last.timesteps + n * step, "seq": last.seq + n}
        rows.append(structs.replace(last, metrics=metrics, **at))
    found = {it.rule: it for it in findings(log, tuple(rows))}
    assert {"drawdown", "nan", "value-loss"} <= found.keys()
    assert found["nan"].severity == "critical"
    assert found["value-loss"].severity == "warning"
    if critic == "train/critic_loss":
        assert found["value-loss"].sentence.startswith("critic loss is ")


def test_what_fits_is_a_table_of_rules_that_there_are() -> None:
    """No other rule speaks: KL, clip fraction and explained variance mean something else there."""
    known = {rule.id for rule in RULES} | {"hang", "nan", "checkpoint-age"}
    for algorithm in (*OTHERS, RETURNS_ALONE):
        assert set(algorithm.rules) <= known
        assert "kl-persistent" in unfit(algorithm)
    assert recognize_algorithm(["train/policy_loss", "train/approx_kl"]) == recognize_algorithm(["train/approx_kl"])
    assert recognize_algorithm(["rollout/ep_rew_mean", "train/loss"]) is None


def risen(n: int, count: int) -> UpdateDone:
    """Row `n` of `count`: the return rises for a quarter of the budget, and wobbles at its best from there on."""
    share = n / count
    metrics = {
        "rollout/ep_rew_mean": min(1.0, 4.0 * share) - 0.01 * (int(share * ROUNDS) % 3),
        "train/ent_coef": 0.1,
        "train/critic_loss": 1.0,
    }
    at = {"seq": n, "update": n, "timesteps": int(share * 100_000)}
    return structs.replace(LOGS["SAC"].updates_done[-1], metrics=metrics, **at)


def test_rules_that_count_rows_see_so_many_of_a_budget_however_many_rows_there_are() -> None:
    """Ten times as many rows give the same plateau, by the numbers of their own rows; a NaN in any of them is found."""
    few, many = (tuple(risen(n, count) for n in range(1, count + 1)) for count in (ROUNDS, 10 * ROUNDS))
    log = TrainingLog(Path("log"), (), Settings(total_timesteps=100_000))
    (one,), (other,) = findings(log, few), findings(log, many)
    assert (one.rule, other.rule) == ("plateau", "plateau")
    assert abs(10 * one.first_update - other.first_update) <= 500
    bad = structs.replace(many[777], metrics=dict(many[777].metrics) | {"train/critic_loss": "nan"})
    assert "nan" in {it.rule for it in findings(log, (*many[:777], bad, *many[778:]))}


def reported(n: int, metrics: dict[str, float]) -> UpdateDone:
    """Row `n` of a script whose gradients and explained variance would alarm rules about PPO, with `metrics` beside."""
    swings = {"rollout/ep_rew_mean": 100.0 * ((n // 12) % 2), "train/grad_norm": 1e6, "train/loss": 1.0}
    at = {"seq": n, "update": n, "timesteps": 1000 * n}
    return structs.replace(LOGS["SAC"].updates_done[-1], metrics=swings | metrics, **at)


def test_a_command_of_no_known_algorithm_is_judged_as_its_log_would_be() -> None:
    """Live too, only what fits any algorithm speaks, until a row has a tag of Stable-Baselines3's own."""

    def said(more: dict[str, float]) -> set[str]:
        judge = HealthJudge(Settings(command=("python", "train.py")), HealthKeep())
        for n in range(1, 151):
            judge.feed(reported(n, more))
        return {finding.rule for finding in judge.findings} - set(RETURNS_ALONE.rules)

    assert said({}) == set()
    assert "grad-norm" in said({"train/explained_variance": 0.5})
