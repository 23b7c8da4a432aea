"""What varies in a group whose members come, go and change."""

from __future__ import annotations

import random

from msgspec import structs

from mission_tui.fleet.specs.flat_settings import GroupSettings, learned_with, value_word, varying, written_settings
from mission_tui.fleet.specs.spec import EnvSpec, RunSpec, Spec
from tests.supervisor.conftest import stub_spec


def spec_with(luck: random.Random) -> Spec:
    """One of a few: a number, a size that is a list, and a table that only some have."""
    spec = stub_spec()
    ppo = structs.replace(spec.ppo, gamma=luck.choice((0.9, 0.99)), n_epochs=luck.choice((4, 10)))
    run = structs.replace(spec.run, values=luck.choice(({}, {"lr": "1e-3"}, {"lr": "3e-3", "size": "64"})))
    return structs.replace(spec, ppo=ppo, run=run)


def test_what_is_kept_of_each_member_says_what_all_of_their_settings_say() -> None:
    """Members join, leave and go on with other settings; each time the same varies as among whole tables."""
    luck, group = random.Random(1), GroupSettings()
    members: dict[str, Spec] = {}
    varied = 0
    for _ in range(300):
        for run in luck.sample("abcde", luck.randrange(3)):
            members.pop(run, None)
        for run in luck.sample("abcde", luck.randrange(3)):
            members[run] = spec_with(luck)
        group.update(dict(members))
        whole = varying({run: written_settings(spec) for run, spec in members.items()})
        assert group.varied == whole
        varied += bool(whole)
    assert varied > 100


def test_a_command_has_no_settings_of_a_trainer() -> None:
    """PPO's and the environment's defaults are in its spec, but nothing of it uses them; what it was given is there."""
    spec = Spec(preset="", env=EnvSpec(), run=RunSpec(command=("python", "train.py"), values={"lr": "1e-3"}))
    flat = written_settings(spec)
    assert [name for name in flat if name.startswith(("env.", "ppo."))] == ["env.id"]
    assert (flat["run.command"], flat["run.values.lr"]) == (["python", "train.py"], "1e-3")


def test_what_a_host_profile_said_is_no_setting() -> None:
    """One that found nothing better leaves seeds of one setting together; what another sets varies by itself."""
    plain = stub_spec()
    tuned = structs.replace(plain, profile="host profile demo@box.toml sets nothing")
    assert learned_with(tuned) == learned_with(plain)
    assert varying({"a": written_settings(plain), "b": written_settings(tuned)}) == {"a": {}, "b": {}}


def test_a_command_is_written_as_it_is_typed() -> None:
    """Trackers and comparisons show it; sizes of layers are joined as people write them."""
    assert value_word(("python", "train.py", "--lr", "a b")) == "python train.py --lr 'a b'"
    assert (value_word((64, 64)), value_word(()), value_word(("my_envs",))) == ("64-64", "none", "my_envs")
