"""How long a launch takes to its first environment step and its first finished update, started anew and preloaded.

`demo` is launched through two running supervisors, one of them with a preloader, alone and four times at once, beside
the floors of any such trainer,
`import torch` and `import stable_baselines3`, and beside plain SB3 on the same environments, which the guide calls the
cold way. Rounds are interleaved; nothing is asserted, because the machine may be busy. After them: what a preloader
that waits holds, and what four forked keepers and trainers hold together, pages that several map counted in shares.
Run: python -m benchmarks.cold_start [--rounds N] [--json FILE]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from benchmarks.fleet.lab import Lab
from benchmarks.results import Row, Sheet, asked_as, busy_elsewhere, write_sheet
from benchmarks.rows import bounded
from mission_tui.cli.plan import LaunchArguments, planned
from mission_tui.fleet.events.metrics import MetricRecord, UpdateDone
from mission_tui.ipc.client import Connection
from mission_tui.ipc.client_environment import captured_environ
from mission_tui.ipc.requests import Act, Launch
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.attempt import read_handle
from mission_tui.records.runs.layout import RunDir, run_dirs
from mission_tui.trainer.process import lower_priority

ROOT = Path(__file__).resolve().parents[1]
LIMIT_S = 120.0
COLD_STEP_S, COLD_UPDATE_S = 2.0, 3.5
SB3_IMPORT = "import stable_baselines3"
PLAIN = "plain SB3: step, update"
ONE, FOUR = "launch: reply, trainer, step, update", "four launches at once"
ONE_FORKED, FOUR_FORKED = "preloaded: reply, trainer, step, update", "four preloaded launches at once"
FORKED_STEP_S, FOUR_FORKED_STEP_S, FORKED_UPDATE_S = 0.15, 0.3, 0.4
IDLE_MIB, FOUR_MIB = 180.0, 350.0
LOOKS = 3
MIB = 2**20
PLAIN_SB3 = """
import time
import torch
torch.set_num_threads(1)
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from mission_tui.envs import MissionGym

class Watch(BaseCallback):
    def _on_rollout_start(self):
        print(time.time())
    def _on_step(self):
        return True

vec = make_vec_env(lambda: MissionGym(config="demo"), 32)
net = {"net_arch": [64, 64]}
model = PPO("MlpPolicy", vec, n_steps=128, batch_size=512, n_epochs=6, policy_kwargs=net, device="cpu")
model.learn(4096, callback=Watch())
print(time.time())
"""


def process_s(code: str) -> list[float]:
    """Seconds that an interpreter with `code` takes to its end."""
    begun = time.perf_counter()
    as_a_trainer(code)
    return [time.perf_counter() - begun]


def plain_s() -> list[float]:
    """Seconds to the first environment step and to the end of the first update of plain SB3."""
    begun = time.time()
    first, last = as_a_trainer(PLAIN_SB3).split()
    return [float(first) - begun, float(last) - begun]


def as_a_trainer(code: str) -> str:
    """What `code` prints in an interpreter of a trainer's priority: the same share of a busy core."""
    process = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: lower_priority(own_session=True),
    )
    return process.stdout


def launch_s(root: Path, copies: int, trained: Callable[[list[str]], None] = lambda _: None) -> list[float]:
    """Seconds from the request to the answer, the trainer's start, its first step and update; the last of `copies`.

    `trained` is called with the runs' ids once all have finished an update.
    """
    items = planned(LaunchArguments(("demo",), copies, at_once=copies), [ROOT / "presets"]).items
    with Connection.connect(root) as link:
        caller: dict[str, Any] = {"cwd": str(ROOT), "python": sys.executable, "environ": captured_environ(os.environ)}
        begun = time.time()
        answer = link.ask(lambda id_: Launch(id=id_, items=items, **caller))
        answered = time.time()
        runs = [RunDir(root / view.id) for view in answer.runs]
        first = [first_update(run) for run in runs]
        trained([run.id for run in runs])
        link.ask(lambda id_: Act(id=id_, verb="kill", runs=tuple(run.id for run in runs)))
    until_free(runs)
    started = [run.attempt(1).identity.stat().st_mtime for run in runs]
    stepped = [done.t - done.update_s - done.rollout_s for done in first]
    ends = (answered, max(started), max(stepped), max(done.t for done in first))
    return [end - begun for end in ends]


def serve(root: Path, preload: str) -> None:
    """Have a supervisor of `root` that preloads, or does not, and whose preloader is ready."""
    os.environ["MISSION_TUI_PRELOAD"] = preload
    try:
        launch_s(root, 1)
    finally:
        del os.environ["MISSION_TUI_PRELOAD"]
    deadline = time.monotonic() + LIMIT_S
    while preload != "0" and not forked(root):
        if time.monotonic() > deadline:
            raise TimeoutError("no preloader came")
        time.sleep(2.0)
        launch_s(root, 1)


def forked(root: Path) -> bool:
    """Whether the newest run of `root` was forked off a preloader."""
    newest = max(run_dirs(root), key=lambda run: run.attempt(1).launch.stat().st_mtime)
    handle = read_handle(newest.attempt(1).handle)
    return handle is not None and handle.preloaded


def held_mib(lab: Lab) -> tuple[float, float]:
    """What the waiting preloader holds alone, and the keepers and trainers of four runs after their first updates."""
    held: list[float] = []
    family: list[psutil.Process] = []

    def look(runs: list[str]) -> None:
        held.append(lab.pss_mib(runs))
        family.extend(lab.families(runs))

    launch_s(lab.root, 4, look)
    _, left = psutil.wait_procs(family, LIMIT_S)
    if left:
        raise TimeoutError(f"{len(left)} processes of killed runs do not end")
    (waiting,) = (it for it in lab.supervisor().children() if "preloader" in " ".join(it.cmdline()))
    return float(waiting.memory_full_info().pss) / MIB, held[0]


def first_update(run: RunDir) -> UpdateDone:
    """The record of the run's first update, waited for."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        if run.metrics.exists():
            done = [row for row in read_all(run.metrics, MetricRecord)[0] if isinstance(row, UpdateDone)]
            if done:
                return done[0]
        time.sleep(0.05)
    raise TimeoutError(f"{run.id} has finished no update")


def until_free(runs: list[RunDir]) -> None:
    """Wait until every run's exit record is there, so that rounds do not overlap."""
    deadline = time.monotonic() + LIMIT_S
    while not all(run.attempt(1).exit.exists() for run in runs) and time.monotonic() < deadline:
        time.sleep(0.02)


def columns(times: list[list[float]]) -> list[list[float]]:
    """What was timed in every round, one list for each thing."""
    return [list(column) for column in zip(*times, strict=True)]


def memory_rows(idle: list[float], four: list[float]) -> list[Row]:
    """What is held, in MiB."""
    return [
        bounded("PSS of an idle preloader", "MiB", idle, at_most=IDLE_MIB),
        bounded("PSS of four `demo`, keepers and trainers", "MiB", four, at_most=FOUR_MIB),
    ]


def rows(times: dict[str, list[list[float]]]) -> list[Row]:
    """The cold path beside plain SB3, the preloaded one beside the cold one."""
    (imported,) = columns(times[SB3_IMPORT])
    plain_step, plain_update = columns(times[PLAIN])
    _, _, step, update = columns(times[ONE])
    _, _, four_step, four_update = columns(times[FOUR])
    _, _, forked_step, forked_update = columns(times[ONE_FORKED])
    _, _, four_forked, _ = columns(times[FOUR_FORKED])
    floor = f"`import stable_baselines3` alone takes {statistics.median(imported):.2f} s here"
    return [
        bounded(
            "launch → first env step, cold, `demo`",
            "s",
            step,
            at_most=COLD_STEP_S,
            against="plain SB3",
            theirs=plain_step,
            note=floor,
        ),
        bounded("launch → first env step, cold, four `demo` at once", "s", four_step),
        bounded(
            "launch → first env step, preloaded, `demo`",
            "s",
            forked_step,
            at_most=FORKED_STEP_S,
            against="started anew",
            theirs=step,
        ),
        bounded(
            "launch → first env step, preloaded, four `demo` at once",
            "s",
            four_forked,
            at_most=FOUR_FORKED_STEP_S,
            against="started anew",
            theirs=four_step,
        ),
        bounded(
            "launch → first update, cold, `demo`",
            "s",
            update,
            at_most=COLD_UPDATE_S,
            against="plain SB3",
            theirs=plain_update,
            note=floor,
        ),
        bounded("launch → first update, cold, four `demo` at once", "s", four_update),
        bounded(
            "launch → first update, preloaded, `demo`",
            "s",
            forked_update,
            at_most=FORKED_UPDATE_S,
            against="started anew",
            theirs=update,
        ),
    ]


def main() -> None:
    """Print the table; with `--json` also write the sheet."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--json", type=Path)
    asked = options.parse_args()
    elsewhere = busy_elsewhere()
    with tempfile.TemporaryDirectory() as folder:
        root, ready = Path(folder) / "runs", Path(folder) / "preloaded"
        serve(root, "0")
        serve(ready, "1")
        subjects: dict[str, Callable[[], list[float]]] = {
            "import torch": lambda: process_s("import torch"),
            SB3_IMPORT: lambda: process_s("import stable_baselines3"),
            PLAIN: plain_s,
            ONE: lambda: launch_s(root, 1),
            FOUR: lambda: launch_s(root, 4),
            ONE_FORKED: lambda: launch_s(ready, 1),
            FOUR_FORKED: lambda: launch_s(ready, 4),
        }
        times: dict[str, list[list[float]]] = {name: [] for name in subjects}
        for number in range(asked.rounds + 1):
            for name, subject in subjects.items():
                seconds = subject()
                if number:  # the first round warms the disk's cache
                    times[name].append(seconds)
        idle, four = columns([list(held_mib(Lab(ready, {}))) for _ in range(LOOKS)])
        ours = [sys.executable, "-m", "mission_tui", "supervisor", "stop"]
        for served in (root, ready):
            environ = {**os.environ, "MISSION_TUI_RUNS": str(served)}
            subprocess.run(ours, env=environ, check=True, stdout=subprocess.DEVNULL)
    print(f"{asked.rounds} rounds; seconds, median (least to most)")
    for name, values in times.items():
        print(
            f"{name:38}",
            "   ".join(f"{statistics.median(c):5.2f} ({min(c):.2f} to {max(c):.2f})" for c in columns(values)),
        )
    print(f"idle preloader {statistics.median(idle):.0f} MiB, four keepers and trainers {statistics.median(four):.0f}")
    if asked.json is not None:
        measured = (*rows(times), *memory_rows(idle, four))
        sheet = Sheet("Cold start", asked_as("benchmarks.cold_start"), measured, elsewhere=elsewhere)
        write_sheet(sheet, asked.json)


if __name__ == "__main__":
    main()
