"""What two engines learned, compared by fixed rules; and a campaign that can be cut off anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from benchmarks.learning.__main__ import main
from benchmarks.learning.compare import at_checkpoints, likeness, row
from benchmarks.learning.train import Engine, Learned, learn, preset

TOTAL = 2000


def learned(seed: int, level: float, engine: Engine = "fast", spread: float = 1.0) -> Learned:
    """A training whose curve rises to `level`, and whose episodes lie around it."""
    curve = ((50, None), *((steps, level * steps / TOTAL) for steps in range(100, TOTAL + 1, 100)))
    returns = tuple(level + spread * (number % 5 - 2) for number in range(100))
    return Learned(engine, preset("cartpole", seed, TOTAL), curve, returns, f"{seed}", 1.0)


def test_a_training_is_like_itself() -> None:
    """Equal trainings are alike at every checkpoint, and counted as equal to the last bit."""
    ours = [learned(seed, 100.0 + seed) for seed in range(1, 6)]
    found = likeness(ours, [replace(one, engine="sb3") for one in ours])
    assert found.met
    assert (found.checkpoints, found.ours_inside, found.theirs_inside, found.bit_equal, found.seeds) == (
        20,
        20,
        20,
        5,
        5,
    )


def test_a_lower_curve_is_not_alike() -> None:
    """A median outside the other's band is a miss, however near the evaluations are."""
    ours = [learned(seed, 80.0 + seed, spread=50.0) for seed in range(1, 6)]
    theirs = [learned(seed, 90.0 + seed, "sb3", spread=50.0) for seed in range(1, 6)]
    found = likeness(ours, theirs)
    assert not found.met
    assert (found.ours_inside, found.theirs_inside, found.bit_equal) == (0, 0, 0)
    assert row(ours, theirs).met is False


def test_evaluations_apart_are_not_alike() -> None:
    """Equal curves do not make up for final policies of another worth."""
    ours = [learned(seed, 100.0 + seed) for seed in range(1, 6)]
    theirs = [replace(one, returns=tuple(value + 20.0 for value in one.returns)) for one in ours]
    found = likeness(ours, theirs)
    assert (found.ours_inside, found.theirs_inside) == (20, 20)
    assert not found.met


def test_a_seed_is_one_sample_whatever_its_episodes() -> None:
    """One unlucky seed of five widens the interval; hundreds of its episodes do not make it five."""
    theirs = [learned(seed, 500.0, "sb3", spread=0.0) for seed in range(1, 6)]
    ours = [learned(seed, 200.0 if seed == 2 else 500.0, spread=0.0) for seed in range(1, 6)]
    found = likeness(ours, theirs)
    assert found.met
    assert found.ours_interval[0] < 400.0 < found.ours_interval[1]


def test_a_checkpoint_before_the_first_episode_is_left_out() -> None:
    """Where no episode has ended there is nothing to compare, and a checkpoint takes the last update before it."""
    one = learned(1, 100.0)
    assert at_checkpoints(one)[0] == pytest.approx(5.0)
    late = replace(one, curve=((50, None), (250, 12.5), *one.curve[4:]))
    assert at_checkpoints(late)[:3] == [None, None, pytest.approx(12.5)]
    assert likeness([late], [late]).checkpoints == 18


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_our_engines_learn_what_sb3_learns() -> None:
    """On a normalized task: the same curve, parameters and episodes; of the fast one the same curve, up to rounding."""
    spec = preset("mountaincar", 5, 2 * 16 * 256)
    ours, stock, sb3 = (learn(spec, engine) for engine in ("fast", "stock", "sb3"))
    assert len(ours.curve) == 32
    assert len(ours.returns) == 100
    assert (stock.curve, stock.parameters, stock.returns) == (sb3.curve, sb3.parameters, sb3.returns)
    assert ours.curve == sb3.curve


@pytest.mark.slow
def test_a_campaign_goes_on_where_it_was_cut_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is trained already is not trained again, and the sheet is written from all of it."""
    words = ["--folder", str(tmp_path), "--steps", "600", "--task", "cartpole", "--engine", "fast", "sb3"]
    main([*words, "--seeds", "1"])
    kept = {file: file.read_bytes() for file in tmp_path.iterdir()}
    assert len(kept) == 2
    capsys.readouterr()
    main([*words, "--seeds", "2", "--json", str(tmp_path / "sheet.json"), "--table", str(tmp_path / "table.md")])
    said = capsys.readouterr().out
    assert said.count("of processor time in") == 2
    assert {file: file.read_bytes() for file in kept} == kept
    assert '"met": true' in (tmp_path / "sheet.json").read_text()
    assert (tmp_path / "table.md").read_text().startswith("| cartpole, at | fast (2 seeds) | sb3 (2 seeds) |")
