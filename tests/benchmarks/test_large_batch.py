"""Source 004's story: the five settings are the source's, and the answers follow from the trainings by fixed rules."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.campaign import Done
from benchmarks.large_batch.__main__ import main
from benchmarks.large_batch.answers import answers
from benchmarks.large_batch.arms import ARMS, LARGE, REFERENCE, SCALED, UNSCALED, Arm, Learned, learned
from benchmarks.large_batch.kept import Trained, keep, read_kept
from benchmarks.large_batch.table import rows
from mission_tui.errors import UsageError
from mission_tui.fleet.events.metrics import UpdateDone


def seeds(best: float, kl: float = 0.02, speed: float = 20_000.0) -> list[Learned]:
    """Three seeds around `best`."""
    return [Learned(kl, 2 * kl, 0.1, 0.2, best + 0.1 * at, best, speed, 0.5, 23) for at in (-1, 0, 1)]


def found(**best: float) -> dict[Arm, list[Learned]]:
    """All arms at 1.0, but for the named ones."""
    named = {"small": REFERENCE, "unscaled": UNSCALED, "high": SCALED[0], "middle": SCALED[1], "low": SCALED[2]}
    return {arm: seeds(best.get(name, 1.0)) for name, arm in named.items()}


def test_the_settings_are_the_sources() -> None:
    """Minibatches and gradient steps of the guide's table; all rollouts but the small one are eight times as large."""
    plans = {arm.name: arm.plan for arm in ARMS}
    assert (plans[REFERENCE.name].batch_size, plans[REFERENCE.name].gradient_steps) == (8192, 16)
    assert (plans[UNSCALED.name].batch_size, plans[UNSCALED.name].gradient_steps) == (65_536, 16)
    assert {(plans[arm.name].batch_size, plans[arm.name].gradient_steps) for arm in SCALED} == {(8192, 64)}
    specs = [arm.job(2).spec for arm in ARMS]
    assert [spec.ppo.learning_rate for spec in specs] == [2.5e-4, 2.5e-4, 2.5e-4, 1.25e-4, 6.25e-5]
    assert [spec.env.n_envs for spec in specs] == [256, *[2048] * 4]
    assert {(spec.ppo.n_steps, spec.run.seed, spec.run.total_timesteps) for spec in specs} == {(128, 2, 6_000_000)}


def test_degrading_and_recovering_are_told_by_every_seed() -> None:
    """Apart in every seed is an answer; seeds that overlap are none."""
    said = answers(found(unscaled=0.5, middle=0.75, high=0.55), 3)
    assert said[0].startswith("**Does the unscaled one degrade here? Yes**")
    assert [line.split("? ")[1].split("**")[0] for line in said[1:4]] == ["Not shown", "Partly", "Yes"]
    assert answers(found(), 3)[0].startswith("**Does the unscaled one degrade here? Not shown**")
    assert answers(found(unscaled=2.0, low=1.0), 3)[0].startswith("**Does the unscaled one degrade here? No")
    assert "lr 6.25e-5? No**" in answers(found(unscaled=2.0), 3)[3]


def test_strain_and_speed_are_held_against_the_sources_limits() -> None:
    """Median KL above 0.08 is named; the slowest of the large ones decides about 18,000 steps/s."""
    trained = found() | {SCALED[0]: seeds(1.0, kl=0.1), LARGE[1]: seeds(1.0, kl=0.1, speed=17_000.0)}
    *_, strained, _, _, speed = answers(trained, 3)
    assert f"most updates: {SCALED[0].name} (median KL 0.100" in strained
    assert "MISSED" in speed
    assert "17,000" in speed
    assert [row.met for row in rows(trained, 3, 6_000_000)] == [None] * 5 + [True, False, True, True]


def test_who_falls_back_and_who_wins_is_said_seed_by_seed() -> None:
    """One seed that ends a tenth below its own best is enough."""
    fallen = [replace(it, last=it.best - 0.2, won=won) for it, won in zip(seeds(1.0), (0.2, 1.0, 0.9), strict=True)]
    *_, fell, wins, _ = answers(found() | {UNSCALED: fallen}, 3)
    assert fell == "**Falls back** (a seed ends more than 10% below its own best return): 2,048 x 128, unscaled."
    assert "2,048 x 128, unscaled 20%, 90%, 100%;" in wins


def test_what_was_trained_elsewhere_is_kept_beside_what_was_trained_here(tmp_path: Path) -> None:
    """Setting by setting and seed by seed; a KL that was infinite is infinite when it is read again."""
    one, two = (replace(it, seed=seed) for seed, it in enumerate(seeds(1.0)[:2], 1))
    again = replace(two, kl=math.inf, place="another machine")
    first = Trained(steps=100, mission="rules")
    trained = first.joined({UNSCALED: [one, two]}).joined({UNSCALED: [again], REFERENCE: [one]})
    kept = tmp_path / "kept.json"
    keep(trained, kept)
    assert read_kept(kept, None, "rules", 6) == read_kept(kept, 100, "rules", 6) == trained
    assert read_kept(kept, 7, "other rules", 6) == Trained(steps=7, mission="other rules")
    with pytest.raises(UsageError, match="give --steps 100, or another --page"):
        read_kept(kept, 7, "rules", 6)
    assert {arm: every for arm, every in trained.found.items() if every} == {UNSCALED: (one, again), REFERENCE: (one,)}
    assert read_kept(tmp_path / "none.json", None, "rules", 6) == Trained(steps=6, mission="rules")


def test_missing_seeds_are_no_answer() -> None:
    """The sentence names what is to be trained yet, and judges nothing but speed."""
    trained = found() | {UNSCALED: seeds(1.0)[:2]}
    first, *others = answers(trained, 3)
    assert first == "**Not answered yet**: of 2,048 x 128, unscaled not all 3 seeds are done."
    assert len(others) == 1
    first, *others = answers(found() | {SCALED[2]: []}, 3)
    assert first.startswith("**Does the unscaled one degrade here?")
    assert f"**Not answered yet**: of {SCALED[2].name} not all 3 seeds are done." in others
    assert not any("lr 6.25e-5?" in line for line in others)
    assert answers({arm: every[:1] for arm, every in found(unscaled=0.5).items()}, 1)[0].startswith("**Not answered**")


def test_a_training_comes_to_its_medians_and_its_best() -> None:
    """Over its updates; an update that diverged counts as it is, and one without a return does not."""
    values: list[tuple[float | str, float | None]] = [(0.01, None), ("inf", 3.0), (0.03, 2.0)]
    updates = [
        UpdateDone(
            at, 1, at, 100 * at, 0.0, 0.1, 0.1, 1000.0 * at,
            {"train/approx_kl": kl, "train/clip_fraction": 0.1, **({} if r is None else {"rollout/ep_rew_mean": r})},
        )
        for at, (kl, r) in enumerate(values, 1)
    ]  # fmt: skip
    one = learned(Done(name="", run="", attempts=1, trained_s=1.0, evaluation={"won": 0.25}), updates)
    assert (one.kl, one.kl_most, one.best, one.last) == (0.03, math.inf, 3.0, 2.0)
    assert (one.steps_per_s, one.won, one.updates) == (2000.0, 0.25, 3)


@pytest.mark.slow
def test_nothing_trained_gives_a_page_that_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each setting has its line with what it would do, and the command that measures it."""
    page = tmp_path / "page.md"
    assert main(["--report", "--folder", str(tmp_path / "none"), "--page", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.count("not measured: run `make large-batch`") == len(ARMS)
    assert "| 65,536 | 4 x 4 = 16 |" in text
    assert "Not answered yet" in capsys.readouterr().out
