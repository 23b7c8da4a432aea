"""A search on the screen: the run that drives it shows the trials in the place of curves."""

from __future__ import annotations

import pytest
from msgspec import structs

from mission_tui.errors import UsageError
from mission_tui.fleet.specs.spec import DRIVER, EnvSpec, Spec
from mission_tui.search.plan import SearchPlan, driver_item
from mission_tui.tui.state.launch_draft import meaning, plan
from mission_tui.tui.state.presets import PresetChoice
from tests.tui.fleets import ENDED, LIVE, a_fleet
from tests.tui.stage import staged

SEARCH = structs.replace(ENDED[2], name="cart-3f9a-search", preset=f"{DRIVER}cartpole", outcome="finished")


async def test_a_search_shows_its_trials_below_the_list_and_whole_on_its_own_screen() -> None:
    """Sentences first, then the trials, best first, each with its settings; other runs keep their curves."""
    async with staged(a_fleet((*LIVE, SEARCH)), size=(100, 40)) as stage:
        await stage.press("end")
        await stage.shows("3 of 40 trials are over (1 pruned, 1 failed), best 487.2 (trial 2)")
        await stage.press("enter")
        await stage.shows("what mattered: ppo.learning_rate 81%, ppo.n_epochs 19%")
        text = stage.text()
        assert "better than the preset: 488 against 390.3 (+97.7, +68.1 to +127; 3 fresh seeds each)" in text
        assert "to keep it: mission-tui presets save cartpole cartpole-best" in text
        rows = [line.split() for line in stage.lines() if line[:3].strip() in ("0", "1", "2", "3")]
        rows = [row for row in rows if row[1] != "of"]
        assert [row[:2] for row in rows] == [["2", "finished"], ["3", "running"], ["0", "pruned"], ["1", "failed"]]
        assert rows[0][2:5] == ["487.2", "0.00083", "16"]
        assert rows[2][1:4] == ["pruned", "at", "34%"]
        assert "return over timesteps" not in text
        await stage.press("escape", "home", "enter")
        await stage.shows("return over timesteps")


async def test_a_search_in_the_launch_form_is_one_run_that_is_called_for_its_group() -> None:
    """The name that was typed is that of the search; several of one are refused."""
    base = Spec(preset="cartpole", env=EnvSpec(id="CartPole-v1"))
    driver = driver_item(SearchPlan(base=base, params=("ppo.n_epochs=4..20",)), "cartpole-3f9a", ("python",)).spec
    preset = PresetChoice("cartpole")
    (item,) = await plan(lambda _name, _words: [driver], preset, (), name="hunt", after=("first",))
    assert (item.name, item.group, item.after) == ("hunt-search", "hunt", ("first",))
    assert item.spec.run.values["group"] == "hunt"
    (item,) = await plan(lambda _name, _words: [driver], preset, ())
    assert (item.name, item.group) == ("cartpole-3f9a-search", "cartpole-3f9a")
    assert meaning((item,)) == [
        "search of cartpole: 20 trials over ppo.n_epochs, at most 1 at once",
        "then the winner and the preset train with 5 fresh seeds each",
    ]
    with pytest.raises(UsageError, match="a search is one run and its trials"):
        await plan(lambda _name, _words: [driver], preset, (), copies=2)
