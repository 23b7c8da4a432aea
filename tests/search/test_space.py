"""The space of a search: what may be written, what is refused with the nearest that is valid, what is drawn of it."""

from __future__ import annotations

import pytest

from mission_tui.errors import MissionError
from mission_tui.fleet.specs.sb3_algorithms import SacSpec
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Schedule, Spec
from mission_tui.search.plan import SPACES, Parameter, default_point, space_of, trial_words

BASE = Spec(preset="cart", env=EnvSpec(id="CartPole-v1", n_envs=8), ppo=PpoSpec(n_steps=32, n_epochs=10))
SAC = Spec(preset="pendulum", env=EnvSpec(id="Pendulum-v1"), run=RunSpec(algo="sac"), sac=SacSpec())
COMMAND = Spec(preset="command", run=RunSpec(command=("python", "train.py", "--lr", "{lr}")))


def one(word: str, base: Spec = BASE) -> Parameter:
    """The only parameter of a space."""
    (found,) = space_of((word,), "", base)
    return found


def test_a_range_is_of_whole_numbers_where_the_setting_is_one() -> None:
    """4..20 epochs are whole, 0..1 of gamma are not; of a command's own value only the words can say it."""
    assert one("ppo.n_epochs=4..20").kind == "int"
    assert one("ppo.gamma=0..1").kind == "float"
    assert one("run.values.lr=1..4", COMMAND).kind == "int"
    assert one("run.values.lr=log:1e-5..1e-2", COMMAND) == Parameter(
        key="run.values.lr", kind="float", low=1e-5, high=1e-2, scale="log"
    )


def test_several_values_are_a_choice_and_lists_stay_whole() -> None:
    """Commas separate values; those within brackets belong to one."""
    assert one("ppo.clip_range=0.1,0.2").choices == ("0.1", "0.2")
    assert one("ppo.net_arch=[64,64],[256,256]").choices == ("[64,64]", "[256,256]")
    assert one("ppo.normalize_advantage=true,false").kind == "choice"


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("ppo.learning_rat=log:1e-5..1e-2", "unknown key ppo.learning_rat; did you mean 'learning_rate'?"),
        ("ppo.learning_rate=lg:1e-5..1e-2", "did you mean 'log'?"),
        ("ppo.learning_rate=log:0..1e-2", "log: begins above 0"),
        ("ppo.n_epochs=0..4", "the nearest valid value is 1"),
        ("ppo.n_epochs=1.5..4", "ppo.n_epochs"),
        ("ppo.gamma=0.9..1.5", "the nearest valid value is 1"),
        ("ppo.n_epochs=20..4", "did you mean 4..20?"),
        ("ppo.policy=1..2", "give its values with commas"),
        ("ppo.gamma=0.9", "one value leaves nothing to search"),
        ("ppo.clip_range=0.1,many", "ppo.clip_range"),
        ("ppo.gamma", "is not KEY=RANGE"),
        ("run.seed=1..5", "--seeds K"),
        ("ppo.gamma=1-log:0.1..2", "distances from 1"),
    ],
)
def test_what_cannot_be_searched_is_refused_by_its_key(word: str, said: str) -> None:
    """The sentence names the parameter and the nearest valid value."""
    with pytest.raises(MissionError) as refused:
        one(word)
    assert said in str(refused.value)
    assert word.partition("=")[0] in str(refused.value)
    assert str(refused.value).startswith("--param ")


@pytest.mark.parametrize(
    ("word", "name", "said"),
    [
        ("ppo.learning_rate=log:1e-5..1e-2", "", "the nearest valid key is sac.learning_rate"),
        ("ppo.n_epochs=4..20", "", "[sac]: policy, learning_rate"),
        ("td3.tau=0..1", "", "the nearest valid key is sac.tau"),
        ("sac.learning_rate=log:1e-5..1e-2", "zoo", "--space zoo is the RL zoo's for PPO, and run.algo = 'sac'"),
    ],
)
def test_what_another_algorithm_is_given_is_refused(word: str, name: str, said: str) -> None:
    """Every trial would fail of it, one after the other; what SAC itself has is searched."""
    with pytest.raises(MissionError) as refused:
        space_of((word,), name, SAC)
    assert said in str(refused.value)
    own = one("sac.learning_rate=log:1e-5..1e-2", SAC)
    assert trial_words((own,), {own.drawn: 1e-3}, SAC) == {"sac.learning_rate": "0.001"}
    with pytest.raises(MissionError, match=r"nearest valid key is ppo\.learning_rate"):
        one("sac.learning_rate=log:1e-5..1e-2")


def test_a_setting_is_given_once_and_may_replace_one_of_a_named_space() -> None:
    """The zoo's learning rate gives way to the person's; the same twice is a slip."""
    found = {each.key: each for each in space_of(("ppo.learning_rate=log:1e-4..1e-3",), "zoo", BASE)}
    assert len(found) == len(SPACES["zoo"])
    assert found["ppo.learning_rate"].low == 1e-4
    with pytest.raises(MissionError, match="given twice"):
        space_of(("ppo.gamma=0.9..1", "ppo.gamma=0.9..0.99"), "", BASE)
    with pytest.raises(MissionError, match="did you mean 'zoo'"):
        space_of((), "zo", BASE)
    with pytest.raises(MissionError, match="say what to search"):
        space_of((), "", BASE)


def test_every_corner_of_the_zoos_space_is_a_setting() -> None:
    """Each end and each choice makes a run, with a minibatch of at most the rollout."""
    space = space_of((), "zoo", BASE)
    for high in (False, True):
        drawn = {
            each.drawn: (each.choices[-1 if high else 0] if each.kind == "choice" else each.high if high else each.low)
            for each in space
        }
        words = trial_words(space, drawn, BASE)
        assert set(words) == {each.key for each in space}
        assert int(words["ppo.batch_size"]) <= 8 * int(words["ppo.n_steps"])


def test_a_minibatch_is_never_larger_than_the_rollout() -> None:
    """Also where only the rollout is searched, and the preset's minibatch was fit for another one."""
    base = Spec(preset="cart", env=EnvSpec(id="CartPole-v1", n_envs=8), ppo=PpoSpec(n_steps=32, batch_size=256))
    space = space_of(("ppo.n_steps=8,32",), "", base)
    assert trial_words(space, {"ppo.n_steps": "8"}, base) == {"ppo.n_steps": "8", "ppo.batch_size": "64"}
    assert trial_words(space, {"ppo.n_steps": "32"}, base) == {"ppo.n_steps": "32"}


def test_what_is_drawn_by_its_distance_from_1_is_set_as_it_is() -> None:
    """0.001 of `1 - ppo.gamma` is a gamma of 0.999."""
    space = space_of(("ppo.gamma=1-log:1e-4..0.03",), "", BASE)
    assert trial_words(space, {"1 - ppo.gamma": 0.001}, BASE) == {"ppo.gamma": "0.999"}


def test_the_presets_own_settings_are_a_point_of_the_space_where_they_lie_in_it() -> None:
    """So that the first trial can be the preset itself; a schedule, or a value outside, is no point."""
    space = space_of(("ppo.n_epochs=4..20", "ppo.gamma=1-log:1e-3..0.1", "ppo.clip_range=0.1,0.2"), "", BASE)
    own = default_point(space, BASE)
    assert own is not None
    assert (own["ppo.n_epochs"], own["ppo.clip_range"]) == (10, "0.2")
    assert own["1 - ppo.gamma"] == pytest.approx(0.01)
    assert default_point(space_of(("ppo.n_epochs=11..20",), "", BASE), BASE) is None
    scheduled = Spec(preset="cart", env=EnvSpec(id="CartPole-v1"), ppo=PpoSpec(learning_rate=Schedule(start=1e-3)))
    assert default_point(space_of(("ppo.learning_rate=log:1e-5..1e-2",), "", scheduled), scheduled) is None
