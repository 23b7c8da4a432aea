"""What every rule says of a command, whose settings `--set` does not reach: its own flags, or words for its script."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from benchmarks.health.streams import FAULTS, KINDS, stream
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.health import HealthJudge, Settings
from mission_tui.fleet.health.phrases import for_strangers
from mission_tui.fleet.specs.spec import Schedule
from mission_tui.fleet.specs.thresholds import Limits

COMMAND = ("python", "train.py", "--lr=1e-3", "--num-envs", "8", "--update-epochs=10")
OURS = re.compile(r"--set|\b(?:ppo|env)\.[a-z]")
"""What only a spec of ours knows. `run.threads` is no such thing: it is set for a command as for a run."""
ODD = (
    Settings(),
    Settings(gamma=0.0),
    Settings(vf_coef=0.0),
    Settings(ent_coef=1.0),
    Settings(learning_rate=5.0),
)
"""Settings that are so far from usual that they are spoken of first."""

SAID_OTHERWISE = {"entropy-collapse", "reward-oscillation"}
"""Rules that say of odd settings in the second kind of training what they say of them nowhere else."""


def said(rule: str) -> Iterator[Finding]:
    """Every finding that two kinds of training get with the trouble of `rule`, as a command's."""
    for kind in KINDS[1:3]:
        case = stream(kind, rule)
        for odd in ODD if kind is KINDS[1] or rule in SAID_OTHERWISE else ODD[:1]:
            settings = replace(
                case.settings,
                ours=False,
                command=COMMAND,
                gamma=odd.gamma if odd.gamma is not None else 0.99,
                vf_coef=odd.vf_coef if odd.vf_coef is not None else 0.5,
                ent_coef=odd.ent_coef or 0.0,
                learning_rate=odd.learning_rate or case.settings.learning_rate,
            )
            judge = HealthJudge(settings, Limits())
            for record in case.records:
                yield from judge.feed(record)


@pytest.mark.parametrize("rule", sorted(FAULTS))
def test_no_rule_advises_a_command_what_only_our_trainer_can_follow(rule: str) -> None:
    """Neither in the sentence, the cause and the advice, nor as assignments that a key would apply."""
    found = list(said(rule))
    assert rule in {finding.rule for finding in found}
    for finding in found:
        words = f"{finding.sentence} | {finding.cause} | {finding.advice}"
        assert not OURS.search(words), words
        assert finding.advice_set == ()


def test_a_command_is_told_its_own_flag_or_what_to_do_in_its_script() -> None:
    """A number by the flag it was started with; a schedule by both ends; normalising by the wrapper that does it."""
    command = Settings(command=COMMAND)
    assert for_strangers("go slower", ("ppo.learning_rate=0.0005",), command) == "go slower (run it with --lr 0.0005)"
    schedule = Schedule(start=1e-3, end=0.0)
    rate = f'ppo.learning_rate={{ start = {schedule.start:g}, end = 0, kind = "{schedule.kind}" }}'
    assert for_strangers("go slower", (rate,), command) == "go slower (in your script: learning_rate from 0.001 to 0)"
    wrapped = "VecNormalize(norm_obs=False, norm_reward=True) around the environments"
    for word in ("env.normalize={ obs = false, reward = true }", "env.normalize.reward=true"):
        assert for_strangers("normalise", (word,), command) == f"normalise (in your script: {wrapped})"
    assert for_strangers("look", ("ppo.gamma=0.99",), command) == "look (in your script: gamma 0.99)"
