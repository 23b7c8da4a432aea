"""What a pair of trainings of the advice benchmark comes to, and what its page says."""

from __future__ import annotations

from benchmarks.health.advice import AS_SETTINGS, Outcome, page, sick_spec, wanted
from benchmarks.health.constructions import CONSTRUCTIONS


def test_mistakes_that_are_settings_are_in_the_spec() -> None:
    """So that advice can undo them; every name of the table is a construction."""
    named = {it.name: it for it in CONSTRUCTIONS}
    assert AS_SETTINGS.keys() <= named.keys()
    assert sick_spec(named["frozen"], 1).ppo.learning_rate < 1e-9  # type: ignore[operator]
    assert sick_spec(named["epochs-40"], 1).ppo.n_epochs == 40
    assert sick_spec(named["batch-8"], 1).ppo.batch_size == 25


def test_cheap_constructions_come_first_and_machines_are_not_advised() -> None:
    """One seed of all before the next, and no training waits for a slow worker."""
    order = [(it.name, it.task.name, seed) for it, seed in wanted()]
    assert len(set(order)) == len(order)
    assert not {"worker-slow", "worker-hang"} & {name for name, _, _ in order}
    cheap = [task for _, task, _ in order if "mission" not in task]
    assert order[: len(cheap)] == [it for it in order if "mission" not in it[1]]
    assert "mission" in order[-1][1]


def test_the_page_counts_what_it_shows() -> None:
    """A pair without advice is no pair that was tried; what was advised before counts no longer and is shown."""
    outcomes = (
        Outcome("lr-300", "cartpole", 101, "cured", "kl-persistent", ("ppo.n_epochs=2",), 20.0, 200.0, 210.0, 22.0),
        Outcome("lr-300", "cartpole", 102, "worse", "kl-persistent", ("ppo.n_epochs=2",), 60.0, 20.0, 210.0, 22.0),
        Outcome("frozen", "cartpole", 101, "no settings"),
        Outcome(
            "lr-300", "cartpole", 1, "better", "kl-spike", ("ppo.n_epochs=1",), 20.0, 90.0, 210.0, 22.0, superseded=True
        ),
    )
    text = page(outcomes)
    assert "**1 of 2 advised trainings are cured or better than their control (50%; goal 70 %), 1 are worse" in text
    assert "In 1 more no finding of the control advised a setting." in text
    assert "| lr-300 | cartpole | `kl-persistent: ppo.n_epochs=2` | 1 |  |  | 1 |  |" in text
    assert "| lr-300 | cartpole | 101 | `ppo.n_epochs=2` | 20 | 200 | 210 | cured |" in text
    assert "## Advice that is given no longer" in text
    assert "| lr-300 | cartpole | 1 | `ppo.n_epochs=1` | 20 | 90 | 210 | better |" in text
