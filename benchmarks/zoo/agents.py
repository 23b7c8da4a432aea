"""The agents that the RL zoo has published, imported and played here: does each come to the return published with it?

The folder that holds them is given; of it only figures are kept. Each is imported as a user would do it, and where the
refusal says what to set instead, that is done. What is done stays in a folder, so the same command goes on.
Run: python -m benchmarks.zoo.agents AGENTS [--page FILE] [--folder FOLDER] [--seconds N] [--agent NAME ...] [--report]
"""

from __future__ import annotations

import argparse
import hashlib
import math
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.campaign import RUNS, alone, put, tell
from benchmarks.fleet.lab import ROOT, Lab, kept
from benchmarks.results import facts_of_the_machine
from benchmarks.zoo.agents_table import Agent, Returns, section, with_section
from benchmarks.zoo.kept import keep_agents, kept_agents
from benchmarks.zoo.published import TABLE, read_published
from benchmarks.zoo.stock_play import played_by_stock
from mission_tui.errors import MissionError, UsageError
from mission_tui.records.runs.attempt import read_spec
from mission_tui.records.sb3_run.folder import find_folder

EPISODES, FIRST = 100, 10
MOST_S = 120.0
"""What an agent is played for at most; the first few episodes tell how many fit."""
MOST_TRIES = 4
NO_ZIP = "its zip is not in the folder that was given"
_SET = re.compile(r"--set ('[^']*'|[^\s;)]+)")
_NAME = re.compile(r"(.+-v\d+)_\d+")
PACKAGES = ("mujoco", "box2d", "pybullet_envs_gymnasium")


def main(arguments: Sequence[str] | None = None) -> int:
    """Import, play, report; a miss is reported, and no failure of the program."""
    asked = _parse(arguments)
    try:
        found = _agents(asked.agents)
        if not asked.report:
            _play(found, asked)
    except MissionError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    known = asked.page and asked.page.with_suffix(".json")
    together = {it.task: it for it in kept_agents(known)} if known else {}
    for agent in filter(None, (_read(asked.folder, path) for path in found)):
        before = together.get(agent.task)
        # What was played elsewhere, with a package that is missing here, stays.
        if before is None or before.here is None or agent.here is not None:
            together[agent.task] = agent
    agents = [together[name] for name in sorted(together)]
    for agent in agents:
        print(f"{agent.task}: {agent.said}")
    if known is not None:
        keep_agents(agents, known)
        text = asked.page.read_text(encoding="utf-8") if asked.page.exists() else ""
        asked.page.write_text(with_section(text, section(agents)), encoding="utf-8")
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.zoo.agents", description="Play the zoo's published agents.")
    parser.add_argument("agents", type=Path, help="a checkout of DLR-RM/rl-trained-agents, or its folder ppo")
    parser.add_argument("--page", type=Path, help="put the table there, and beside it what it is made of")
    parser.add_argument("--folder", type=Path, default=Path("build/zoo-agents"), help="where runs and results are kept")
    parser.add_argument("--published", type=Path, default=TABLE, help="the zoo's table of results, a CSV")
    parser.add_argument("--agent", nargs="+", help="these alone, such as CartPole-v1_1")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop in good order after so long")
    parser.add_argument("--report", action="store_true", help="play nothing, report what is there")
    return parser.parse_args(arguments)


def _agents(folder: Path) -> list[Path]:
    """The zoo's run folders of PPO in `folder`. Raises `UsageError` where there is none."""
    inside = folder / "ppo" if (folder / "ppo").is_dir() else folder
    found = [path for path in sorted(inside.glob("*")) if path.is_dir() and _NAME.fullmatch(path.name)]
    if not found:
        raise UsageError(
            f"{folder} holds no folder such as ppo/CartPole-v1_1: give a checkout of DLR-RM/rl-trained-agents"
        )
    return found


def _play(found: Sequence[Path], asked: argparse.Namespace) -> None:
    """Import and play whatever is not done yet, for so long. Raises `UsageError` while another is at work there."""
    deadline = time.monotonic() + asked.seconds
    wanted = [path for path in found if not asked.agent or path.name in asked.agent]
    left = [path for path in wanted if _read(asked.folder, path) is None]
    if not left:
        return
    published = read_published(asked.published) if asked.published.exists() else {}
    asked.folder.mkdir(parents=True, exist_ok=True)
    with alone(asked.folder), kept(asked.folder / RUNS) as lab:
        for path in left:
            if time.monotonic() >= deadline:
                tell("time is over before every agent is played; the same command goes on")
                break
            row = published.get(task_of(path))
            paper = None if row is None else Returns(row.mean, row.std, row.episodes)
            agent = _agent(lab, path, paper or last_evaluation(path))
            put(_file(asked.folder, path), agent)
            tell(f"{agent.task}: {agent.said}")


def task_of(path: Path) -> str:
    """The zoo's name of the task."""
    match = _NAME.fullmatch(path.name)
    assert match is not None
    return match[1]


def last_evaluation(path: Path) -> Returns | None:
    """The returns of the last evaluation in the folder's own `evaluations.npz`; None where there is none."""
    try:
        with np.load(path / "evaluations.npz", allow_pickle=False) as file:
            last = file["results"].astype(float)[-1]
    except (OSError, ValueError, KeyError, IndexError):
        return None
    return Returns(float(np.mean(last)), float(np.std(last)), int(np.size(last)), "its last evaluation")


def _agent(lab: Lab, path: Path, published: Returns | None) -> Agent:
    """One agent, imported and played."""
    machine = facts_of_the_machine(PACKAGES)
    known = {name: machine[name] for name in ("stable-baselines3", "gymnasium", *PACKAGES) if machine[name] != "-"}
    agent = Agent(task=task_of(path), published=published, versions=known)
    if not find_folder(path).zips:
        return msgspec.structs.replace(agent, why=NO_ZIP)
    run, words, why = imported(lab, path)
    if run is None:
        return msgspec.structs.replace(agent, settings=words, why=why)
    agent = msgspec.structs.replace(agent, settings=words, env=read_spec(lab.dir(run).spec).env.id)
    try:
        first = lab.cli("evaluate", run, "--episodes", str(FIRST))
        fitting = int(MOST_S / max(first["seconds"], 1e-3) * FIRST)
        played = lab.cli("evaluate", run, "--episodes", str(max(FIRST, min(EPISODES, fitting))))
    except subprocess.CalledProcessError as error:
        return msgspec.structs.replace(agent, why=f"`evaluate` refused with exit code {error.returncode}")
    agent = msgspec.structs.replace(agent, here=Returns(played["mean"], played["std"], played["episodes"]))
    if agent.is_same is False and agent.here is not None:
        tell(f"{agent.task}: {agent.said}; played by SB3 alone as well")
        spec = read_spec(lab.dir(run).spec)
        agent = msgspec.structs.replace(agent, stock=played_by_stock(path, spec, agent.here.episodes))
    return agent


def imported(lab: Lab, path: Path) -> tuple[str | None, tuple[str, ...], str]:
    """The run that `path` was imported as, the `--set` words that refusals named and were taken, and else why not."""
    words: list[str] = []
    for _ in range(MOST_TRIES):
        options = [option for word in words for option in ("--set", word)]
        command = ["import-run", str(path), "--trust", *options, "--json"]
        argv = [sys.executable, "-m", "mission_tui", *command]
        done = subprocess.run(argv, cwd=ROOT, env=lab.environ, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            (run,) = msgspec.json.decode(done.stdout)["runs"]
            return run["id"], tuple(words), ""
        why = done.stderr.strip().splitlines()[-1].removeprefix("mission-tui: ") if done.stderr.strip() else "?"
        advised = [word for word in _advised(why) if word not in words]
        if not advised:
            return None, tuple(words), why.replace(str(path), path.name)
        words += advised
    return None, tuple(words), "each import that its refusal advised was refused as well"


def _advised(sentence: str) -> Iterator[str]:
    for word in _SET.findall(sentence):
        yield from shlex.split(word)


def _read(folder: Path, path: Path) -> Agent | None:
    file = _file(folder, path)
    return msgspec.json.decode(file.read_bytes(), type=Agent) if file.exists() else None


def _file(folder: Path, path: Path) -> Path:
    """Named by what the figures depend on: the files of the agent, and versions of packages."""
    digest = hashlib.sha256()
    for file in sorted(it for it in path.rglob("*") if it.suffix in (".zip", ".pkl", ".yml")):
        digest.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    digest.update(repr(sorted(facts_of_the_machine(PACKAGES).items())).encode())
    return folder / f"{path.name}-{digest.hexdigest()[:8]}.json"


if __name__ == "__main__":
    sys.exit(main())
