"""How many runs pay, from what each brought as it joined."""

from __future__ import annotations

import pytest

from mission_tui.fleet.events.marginal_gain import MarginalGain, Word
from mission_tui.fleet.specs.spec import EnvSpec, RunSpec, Spec
from mission_tui.fleet.tuning.tune_state import fleet_run_spec, fleet_size_verdict, may_add_run


def joined(*verdicts: Word) -> list[MarginalGain]:
    """Runs that joined one by one with these verdicts."""
    return [
        MarginalGain(0.0, "joined", verdict, at, more_per_s=1000.0 * (at + 1), gain=0.02, low=-0.03, high=0.07)
        for at, verdict in enumerate(verdicts)
    ]


@pytest.mark.parametrize(
    ("verdicts", "most", "pays", "least"),
    [
        (("first",), 1, 1, True),
        (("first", "pays", "little"), 4, 2, False),
        (("first", "costs"), 4, 1, False),
        (("first", "pays", "pays"), 3, 3, True),
        (("first", "pays", "noisy"), 4, 2, True),
        (("swapped", "little"), 2, 1, False),
        ((), 4, None, False),
    ],
)
def test_so_many_pay(verdicts: tuple[Word, ...], most: int, pays: int | None, least: bool) -> None:
    """Those before the one that did not; "at least" where nobody knows what one more would have brought."""
    said = fleet_size_verdict(joined(*verdicts), most)
    assert (said.pays, said.least) == (pays, least)
    assert said.sentence.startswith("at least") == least


def test_why_it_ended_is_said() -> None:
    """A budget that was spent, or a run for which there was no room."""
    assert "the budget is spent" in fleet_size_verdict(joined("first", "pays"), 4, "the budget is spent").sentence
    assert fleet_size_verdict([], 4, "it failed").sentence == "cannot be said: it failed"


def test_one_joins_after_another_until_one_does_not_pay() -> None:
    """The first is never judged: there was nothing to add it to."""
    assert may_add_run([])
    assert may_add_run(joined("swapped"))
    assert may_add_run(joined("first", "pays"))
    assert not may_add_run(joined("first", "pays", "noisy"))


def test_each_run_has_its_own_seed_and_ends_by_itself() -> None:
    """Should everybody die who could end it."""
    spec = Spec(preset="tiny", env=EnvSpec(id="CartPole-v1"), run=RunSpec(total_timesteps=1000, seed=5))
    runs = [fleet_run_spec(spec, number, 60.0).run for number in (1, 2, 3)]
    assert [run.seed for run in runs] == [5, 6, 7]
    assert {(run.total_timesteps, run.duration_s) for run in runs} == {(None, 60.0)}
