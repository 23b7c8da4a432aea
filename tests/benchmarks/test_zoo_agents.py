"""The zoo's published agents: what a refusal advises is done, returns are compared by their errors, and a page keeps
both its parts.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from benchmarks.zoo.agents import NO_ZIP, _advised, last_evaluation, main
from benchmarks.zoo.agents_table import TITLE, Agent, Returns, apart, section, with_section
from benchmarks.zoo.kept import keep, keep_agents, kept_agents, with_kept
from mission_tui.fleet.specs.env_ids import today
from tests.benchmarks.test_zoo import measured

PUBLISHED = Returns(500.0, 10.0, 100)


def agent(mean: float, **more: object) -> Agent:
    """One that was played for a hundred episodes."""
    fields = {"task": "CartPole-v1", "env": "CartPole-v1", "published": PUBLISHED, "here": Returns(mean, 10.0, 100)}
    return msgspec.convert({name: msgspec.to_builtins(it) for name, it in (fields | more).items()}, Agent)


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        (f"env.id 'Ant-v3' is not made; {today('Ant-v3', ['Ant-v4'])}", ["env.id=Ant-v4"]),
        (f"env.id 'X'; {today('HalfCheetah-v3', ['HalfCheetah-v4'])}", ["env.id=HalfCheetah-v4"]),
        ("write it (--set 'env.imports=[\"ale_py\"]')", ['env.imports=["ale_py"]']),
        ("the file holds another policy", []),
    ],
)
def test_what_a_refusal_advises_is_taken(sentence: str, words: list[str]) -> None:
    """Each `--set` as a shell would give it."""
    assert list(_advised(sentence)) == words


def test_two_means_are_the_same_within_two_errors_of_their_difference() -> None:
    """Returns without any spread are the same only where they are equal."""
    assert (agent(502.0).is_same, agent(504.0).is_same) == (True, False)
    assert agent(502.0).verdict == "yes (+1.4)"
    assert apart(Returns(500.0, 0.0, 10), Returns(500.0, 0.0, 10)) == 0.0
    assert apart(Returns(499.0, 0.0, 10), Returns(500.0, 0.0, 10)) == float("-inf")
    blamed = agent(480.0, stock=Returns(481.0, 10.0, 100))
    assert blamed.verdict == "**no** (-14.1); so does SB3 alone: 481.0 ± 10.0 (100 episodes) (-0.7 between us)"
    assert "**SB3 alone" in agent(480.0, stock=Returns(500.0, 10.0, 100)).verdict


def test_the_section_is_one_part_of_the_page() -> None:
    """It takes the place of the last one, and without agents there is none."""
    text = section([agent(502.0), agent(480.0), Agent(task="PongNoFrameskip-v4", why=NO_ZIP)])
    assert "2 of 3 were played; 1 of these come to the published return." in text
    assert "| CartPole-v1 | CartPole-v1 | yes | 500.0 ± 10.0 (100 episodes) | 502.0 ± 10.0 (100 episodes) | yes" in text
    assert f"| PongNoFrameskip-v4 | PongNoFrameskip-v4 | no |  | not evaluated here: {NO_ZIP} |  |" in text
    page = with_section("# The zoo's table\n\nlines\n", text)
    assert page.startswith("# The zoo's table\n\nlines\n\n## Published agents")
    again = with_section(page, section([agent(500.0)]))
    assert (again.count(TITLE), "lines\n\n" in again, "PongNoFrameskip" in again) == (1, True, False)
    assert with_section(again, "") == "# The zoo's table\n\nlines"


def test_tasks_and_agents_are_kept_side_by_side(tmp_path: Path) -> None:
    """Writing either leaves the other, also where the file is one of before there were agents."""
    file = tmp_path / "zoo.json"
    keep([measured(500.0, 500.0)], file)
    file.write_text(json.dumps(json.loads(file.read_text())["tasks"]))
    keep_agents([agent(500.0)], file)
    assert kept_agents(file) == (agent(500.0),)
    assert [it.means for it in with_kept([measured(None, None)], file)][-1] == [500.0, 500.0]
    keep([measured(400.0, 400.0)], file)
    assert kept_agents(file) == (agent(500.0),)


def test_a_folder_without_agents_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a sentence that says what is wanted; nothing starts."""
    assert main([str(tmp_path), "--folder", str(tmp_path / "out")]) == 2
    assert "give a checkout of DLR-RM/rl-trained-agents" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert last_evaluation(tmp_path) is None
