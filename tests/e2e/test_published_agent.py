"""The road of docs/recipes/rl-zoo.md: whoever has a published folder on disk evaluates and trains on in three commands.

The folder has the shape of those in rl-trained-agents, and was left by stock SB3.
"""

from __future__ import annotations

import json
import math
import re
import shlex
import statistics
from pathlib import Path

import pytest

from tests.shell import REPOSITORY, Shell
from tests.trainer.zoo_folder import write_zoo_folder

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(300)]

RECIPE = REPOSITORY / "docs" / "recipes" / "rl-zoo.md"
CARTPOLE = {"n_steps": 32, "batch_size": 256, "gae_lambda": 0.8, "gamma": 0.98, "n_epochs": 20, "ent_coef": 0.0}
CARTPOLE |= {"learning_rate": 1e-3}


def commands() -> list[list[str]]:
    """The words of the commands in the recipe's first block, less `mission-tui`."""
    block = re.search(r"```sh\n(.*?)```", RECIPE.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    lines = [shlex.split(line, comments=True) for line in block[1].splitlines()]
    return [words[1:] for words in lines if words[:1] == ["mission-tui"]]


def test_three_commands_lead_to_an_evaluated_run_that_trains_on(shared_fleet: Shell) -> None:
    """The return is the one that SB3's own evaluation gave, within the error of both; more updates do not lose it."""
    folder, theirs = write_zoo_folder(
        shared_fleet.cwd / "rl-trained-agents" / "ppo", "CartPole-v1", CARTPOLE, steps=10_240, n_envs=8, episodes=40
    )
    assert folder.relative_to(shared_fleet.cwd) == Path("rl-trained-agents/ppo/CartPole-v1_1")
    steps = commands()
    assert [words[0] for words in steps] == ["import-run", "evaluate", "resume"]
    imported = shared_fleet(*steps[0], timeout_s=120)
    assert imported.returncode == 0, imported.stderr
    played = shared_fleet.json(*steps[1], timeout_s=120)
    error = math.hypot(statistics.stdev(theirs) / math.sqrt(len(theirs)), played["std"] / math.sqrt(played["episodes"]))
    assert abs(played["mean"] - statistics.fmean(theirs)) <= 4 * error + 1e-9
    view = shared_fleet.view("@last")
    assert (view["state"], view["outcome"], view["timesteps"]) == ("ended", "finished", 10_240)
    total = next(word for word in steps[2] if word.startswith("run.total_timesteps="))
    words = [word.replace(total, "run.total_timesteps=12288") for word in steps[2]]
    asked = shared_fleet(*words, timeout_s=120)
    assert asked.returncode == 0, asked.stderr
    waited = shared_fleet("wait", "@last", timeout_s=120)
    assert waited.returncode == 0, waited.stderr
    view = shared_fleet.view("@last")
    assert (view["attempt"], view["outcome"], view["timesteps"]) == (2, "finished", 12_288)
    resumed = [row["resumed"] for row in shared_fleet.rows(view["id"]) if row.get("resumed")][-1]
    # What is played to compare with it has a time limit, which a busy machine may not keep. How many episodes 10,240
    # steps hold depends on how well it learned, which differs by processor: more than 100, or a few less.
    ended = sum(len(path.read_text().splitlines()) - 2 for path in folder.glob("*.monitor.csv"))
    assert ended > 50
    assert resumed["episodes_before"] == min(100, ended)
    again = shared_fleet.json("evaluate", "@last", "--episodes", "40", timeout_s=120)
    # A policy of 10,000 steps is not settled: by seed, eight more updates of SB3 leave it at 178 to 500; one that
    # forgot what it knew is at 20.
    assert again["mean"] >= 0.25 * played["mean"]


def test_what_a_newcomer_types_instead_is_answered_with_the_command(shared_fleet: Shell) -> None:
    """The repository, the zip, the wrong verb, an old id: each refusal has the words that work, and they do."""
    logs = shared_fleet.cwd / "published" / "ppo"
    folder, _ = write_zoo_folder(
        logs, "Pendulum-v1", {"n_steps": 256}, steps=512, episodes=1, called="Pendulum-v0", normalize=True
    )
    file = folder / "Pendulum-v0.zip"
    for words, said in (
        (["import-run", "published", "--trust"], f"name one of its runs: {folder}"),
        (["import-run", str(file), "--trust"], f"of a run: {folder}"),
        (["import-checkpoint", str(folder), "--trust"], f"; take: mission-tui import-run {folder} --trust"),
        (
            ["import-checkpoint", str(file), "--trust"],
            f"mission-tui import-run {folder} --trust takes its config.yml and vecnormalize.pkl along",
        ),
        (["import-run", str(folder)], "give --trust if you know who made it"),
    ):
        done = shared_fleet(*words)
        assert done.returncode == 2, done.stderr
        assert said in done.stderr
    refused = shared_fleet("import-run", str(folder), "--trust", timeout_s=120)
    assert refused.returncode != 0
    advised = re.search(r"--set (\S+)", refused.stderr)
    assert advised is not None, refused.stderr
    imported = shared_fleet("import-run", str(folder), "--trust", "--set", advised[1], "--json", timeout_s=120)
    assert imported.returncode == 0, imported.stderr
    (run,) = json.loads(imported.stdout)["runs"]
    assert shared_fleet.json("evaluate", run["id"], "--episodes", "2", timeout_s=120)["episodes"] == 2
