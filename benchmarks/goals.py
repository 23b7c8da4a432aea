"""The table of goals, in its order: what is asked for, and by which words the rows that answer it are known.

A row belongs to the first line whose words are found in what it was measured on and against; rows that no line asks
for are reported after the table, never dropped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from benchmarks.results import Row

__all__ = ["LINES", "Line", "line_of"]

NO_GPU = "in this table, which is of a machine without a GPU; `make gpu` measures it, and docs/gpu.md has it"


@dataclass(frozen=True, slots=True)
class Line:
    """A goal. `words` is searched in "what | against" of a row; `program` measures it, or `why` says why none does."""

    what: str
    against: str
    goal: str
    words: str
    program: str = ""
    why: str = ""

    @property
    def absence(self) -> str:
        """What stands there when nothing was measured."""
        return f"not measured: {self.why or f'run `make bench-{self.program}`'}"

    def asks_for(self, row: Row) -> bool:
        """Whether the row answers this line."""
        return re.search(self.words, f"{row.what} | {row.against}", re.IGNORECASE) is not None


def line_of(row: Row) -> Line | None:
    """The line that `row` answers, if any."""
    return next((line for line in LINES if line.asks_for(row)), None)


LINES = (
    Line(
        "raw stepping, 32 and 64 CartPole / LunarLander / HalfCheetah, 2 processes (the trainer and a worker)",
        "SB3 SubprocVecEnv",
        ">= 12 x / 6 x / 4 x",
        r"^raw stepping.*\| SB3 Subproc",
        "stepping",
    ),
    Line(
        "the same",
        "best of SB3 Dummy, gymnasium Sync",
        ">= 1.25 x / 1.6 x / 1.25 x",
        r"^raw stepping.*\|",
        "stepping",
    ),
    Line(
        "bring-up of 64 envs; PSS of workers",
        "SB3 SubprocVecEnv",
        "<= 0.3 s; <= 80 MiB",
        r"^(bring-up|PSS) of \d+ .*workers",
        "stepping",
    ),
    Line(
        "hand-over of a step: 32 environments that do nothing, over what a process's share of them takes",
        "",
        "<= 40 us on one worker and on two",
        r"^hand-over of a step",
        "stepping",
    ),
    Line(
        "PPO, 16 x CartPole, same hyper-parameters, same learning",
        "SB3 on the same batched core; best of SB3, CleanRL, sbx, PufferLib",
        ">= 5 x batched; >= 4 x inline, >= 2.5 x in two processes; with one or two threads, each side",
        r"^PPO, 16 x CartPole",
        "ppo",
    ),
    Line(
        "PPO, 32 x LunarLander, HalfCheetah",
        "best SB3 vec env",
        ">= 1.5 x / 1.3 x",
        r"^PPO, 32 x (LunarLander|HalfCheetah)",
        "ppo",
    ),
    Line(
        "PPO, 256-2,048 batched envs",
        "SB3 on the same batched env",
        ">= 1.25 x, and never below 1 x",
        r"^PPO, [\d,]+ batched",
        "ppo",
    ),
    Line(
        "MissionGym batched core, 2,048 fields; PPO on it (`swarm`)",
        "single env x 2,048",
        ">= 50 x; >= 150,000 steps/s",
        r"batched core.*fields|`?swarm`?",
        "mission",
    ),
    Line(
        "four `heavy` runs, summed steps/s",
        "four SB3 + Subproc with torch's default threads; with 1 thread",
        ">= 8 x; >= 2 x",
        r"^(?!.*GPU).*four `?heavy",
        "fleet.heavy",
    ),
    Line(
        "four `beast` runs",
        "(do not fit otherwise)",
        "run, <= 3 GiB in all",
        r"^(?!.*GPU).*four `?beast",
        "fleet.beast",
    ),
    Line(
        "launch → first env step, supervisor up",
        "cold 1.45 s (plus vec env)",
        "<= 0.15 s one, <= 0.3 s four; cold path <= 2 s",
        r"launch.* first env(ironment)? step",
        "cold_start",
    ),
    Line(
        "launch → first finished update",
        "cold 2.75 s",
        "<= 0.4 s for `demo`",
        r"launch.* first (finished )?update",
        "cold_start",
    ),
    Line(
        "memory of a preloader that waits; of four `demo`, keepers and trainers",
        "",
        "<= 180 MiB; <= 350 MiB (PSS)",
        r"^PSS of (an idle preloader|four `demo`)",
        "cold_start",
    ),
    Line("supervised against the same trainer alone", "itself", ">= 0.99", r"^supervised", "fleet.overhead"),
    Line(
        "screen, 16 live runs, default rate, realistic change",
        "htop, btop, DataTable and Static variants",
        "<= 5 % of a core, <= 20 KB/s, key → paint p95 <= 30 ms",
        r"^screen.*\b16\b",
        "screen",
    ),
    Line("screen, 64 live runs", "", "key → paint p95 <= 50 ms", r"^screen.*\b64\b", "screen"),
    Line(
        "a policy watched at play on the screen",
        "the same screen on its charts",
        "<= 10 % of a core more, <= 60 KB/s, key → paint p95 <= 50 ms",
        r"^a policy watched",
        "screen",
    ),
    Line(
        "first paint with 200 ended runs / attach with 1,000",
        "smallest Textual app",
        "<= 0.3 s / <= 1 s",
        r"^(first paint|attach)",
        "screen",
    ),
    Line(
        "supervisor, 16 runs, GPUs sampled",
        "",
        "<= 3 % of a core, <= 60 MiB; probe <= 2 % of a core",
        r"^supervisor, .*GPUs sampled",
        "sampling",
    ),
    Line(
        "1,000 live runs on Slurm and Ray, simulated, and 20,000 ended ones",
        "",
        "supervisor <= 40 % of a core, <= 250 MB; screen <= 8 %, key → paint p95 <= 50 ms; `status` <= 0.5 s",
        r"live runs on engines",
        "clusters",
    ),
    Line(
        "CPU shown of four runs, beside what the kernel and the host say",
        "",
        "within 5 points of the machine",
        r"^CPU shown for",
        "cpu_shares",
    ),
    Line(
        "what each of four `fast` brought, as the screen says it",
        "hand calculation from the runs' rows",
        "within 10 points of it",
        r"^what run \d+ brought",
        "joining",
    ),
    Line(
        "supervisor, 16 runs; 800 msg/s with health",
        "",
        "<= 3 % / <= 12 % of a core, <= 60 MiB",
        r"^supervisor",
        "supervisor",
    ),
    Line(
        "on a GPU: four `heavy` at once",
        "one, alone",
        "summed steps/s >= 2.5 x if cores suffice; GPU busy %, MPS on and off",
        r"GPU.*heavy|heavy.*GPU",
        why=NO_GPU,
    ),
    Line(
        "on a GPU: update phase, `beast` shape",
        "stock SB3 PPO on the same GPU",
        ">= 3 x",
        r"GPU.*update|update.*GPU",
        why=NO_GPU,
    ),
)
