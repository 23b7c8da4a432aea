"""Snapshots that look like a working day: live runs with curves and findings, queued and ended ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from msgspec import structs

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.metrics import Metric
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.events.processes import Pids, Usage
from mission_tui.fleet.events.trials import TrialPair, TrialPlan, TrialVerdict
from mission_tui.fleet.history.course import Course, GoalView, ValueAtUpdate
from mission_tui.fleet.views.snapshot import (
    SERIES,
    FleetSnapshot,
    GpuMeters,
    HostMeters,
    MachineView,
    RunView,
    SupervisorInfo,
    TrialView,
    Utilisation,
)

NOW = 1_795_000_000.0
GIB = 1 << 30

KL_FINDING = Finding(
    id="kl-persistent-1204",
    rule="kl-persistent",
    severity="warning",
    first_update=1204,
    last_update=1403,
    sentence="KL outside the trust region: u > 2 in 5 of 8 updates",
    cause="100 gradient steps an update at a learning rate of 3e-4",
    advice="fewer epochs",
    advice_set=("ppo.n_epochs=10",),
    signal="train/approx_kl",
    threshold=0.04,
    window=8,
    evidence=tuple(
        {
            "update": 1200.0 + n,
            "timesteps": 8192.0 * (1200 + n),
            "train/approx_kl": 0.044 + 0.001 * n,
            "u": 2.2 + 0.05 * n,
        }
        for n in range(5)
    ),
)
TRIAL = TrialView(
    t=NOW - 600,
    plan=TrialPlan(
        number=1,
        checkpoint="011468800",
        from_update=1400,
        from_timesteps=11_468_800,
        until_timesteps=11_632_640,
        updates=20,
        seeds=(7378801, 7388808, 7398815),
        group="sick-11c0-try1",
        assignments=("ppo.n_epochs=10",),
        finding="kl-persistent-1204",
    ),
    verdict=TrialVerdict(
        says="helps",
        pairs=(
            TrialPair(1, 7378801, 12.1, 15.9),
            TrialPair(2, 7388808, 12.9, 15.1),
            TrialPair(3, 7398815, 12.2, 15.5),
        ),
        control=12.4,
        advised=15.5,
        difference=3.1,
        low=1.1,
        high=5.1,
        margin=1.5,
        best="sick-11c0-try1-advised-1",
    ),
)
NAN_FINDING = Finding(
    id="nan-1-1398",
    rule="nan",
    severity="critical",
    first_update=1398,
    last_update=1403,
    sentence="train/value_loss is nan at update 1,398",
    cause="5,120 gradient steps x 0.1 per update is 1,280 x the reference (16 x 0.00025), without normalised inputs",
    advice="go back to the last good checkpoint with half the learning rate",
    advice_set=("ppo.learning_rate=0.05",),
    first_t=NOW - 90,
    last_t=NOW,
    signal="train/value_loss",
    evidence=({"update": 1398.0, "timesteps": 11_452_416.0, "train/value_loss": "nan"},),
)
ENTROPY_FINDING = Finding(
    id="entropy-collapse-1-310",
    rule="entropy-collapse",
    severity="warning",
    first_update=310,
    last_update=342,
    sentence="entropy fell by 60% within 5% of the budget",
    cause="ent_coef is 0: nothing keeps the policy from being sure too early",
    advice="pay for entropy",
    advice_set=("ppo.ent_coef=0.01",),
    state="cleared",
    first_t=NOW - 9000,
    last_t=NOW - 8700,
    signal="policy/entropy_ratio",
    evidence=({"update": 342.0, "policy/entropy_ratio": 0.21},),
)


def curve(points: int = 60, height: float = 12.0, waver: float = 0.5) -> tuple[Metric | None, ...]:
    """A return that rises and wavers."""
    return tuple(height * (1 - math.exp(-n / 20)) + waver * math.sin(n * 1.7) for n in range(points))


def course(values: Sequence[Metric | None]) -> Course:
    """The whole of a run whose stretches of 32 updates have these returns, or half of one more or less."""
    known = [None if it is None else float(it) for it in values]
    return Course(32, *(tuple(None if it is None else it + by for it in known) for by in (-0.5, 0.5)))


def a_run(name: str, **changed: Any) -> RunView:
    """A live run in its rollout, unless changed."""
    rewards = curve()
    facts: dict[str, Any] = {
        "id": f"20261121-104207-{name}",
        "name": name,
        "preset": name.rsplit("-", 1)[0],
        "run_dir": f"/home/ada/lab/runs/20261121-104207-{name}",
        "state": "running",
        "created_t": NOW - 4000,
        "attempt": 1,
        "phase": "rollout",
        "phase_t": NOW - 1,
        "connected": True,
        "heartbeat_t": NOW,
        "started_t": NOW - 3900,
        "update": 1403,
        "timesteps": 11_493_376,
        "total_timesteps": 27_000_000,
        "steps_per_s": 1412.0,
        "eta_s": 20_400.0,
        "eta_low_s": 18_900.0,
        "eta_high_s": 21_700.0,
        "best": ValueAtUpdate(12.9, 1390, 11_386_880),
        "course": course(rewards[:44]),
        "task": "MissionGym-v0 standard",
        "rollout_s": 0.41,
        "update_s": 0.12,
        "seed": 7,
        "env_id": "MissionGym-v0",
        "n_envs": 32,
        "n_steps": 256,
        "last_checkpoint": "011468800",
        "metrics": {
            "rollout/ep_rew_mean": 12.4,
            "rollout/ep_len_mean": 412.0,
            "train/approx_kl": 0.012,
            "train/clip_fraction": 0.11,
            "policy/entropy_ratio": 0.63,
            "train/explained_variance": 0.71,
            "train/learning_rate": 3e-4,
            "train/value_loss": 0.218,
            "train/grad_norm": 0.83,
        },
        "outcomes": {"captured": 61, "timeout": 30, "stalled": 9},
        "series": {
            "rollout/ep_rew_mean": rewards,
            "rollout/ep_len_mean": tuple(900 - 40 * float(value or 0) for value in rewards),
            "steps_per_s": tuple(1400 + 60 * math.sin(n) for n in range(60)),
            "train/approx_kl": tuple(0.012 + 0.004 * math.sin(n * 2.1) for n in range(60)),
        },
    }
    return RunView(**(facts | changed))


def ended(name: str, minutes_ago: float, outcome: str = "finished", **changed: Any) -> RunView:
    """A run that is over."""
    facts: dict[str, Any] = {
        "state": "ended",
        "phase": None,
        "outcome": outcome,
        "cause": "reached its budget",
        "ended_t": NOW - 60 * minutes_ago,
        "started_t": NOW - 60 * minutes_ago - 700,
        "timesteps": 27_000_000,
        "eta_s": None,
        "eta_low_s": None,
        "eta_high_s": None,
    }
    return a_run(name, **(facts | changed))


def queued(name: str) -> RunView:
    """A run that waits for room."""
    return a_run(
        name, state="queued", phase=None, attempt=0, update=None, timesteps=None, steps_per_s=None, eta_s=None,
        eta_low_s=None, eta_high_s=None, best=None, course=None, rollout_s=None, update_s=None, metrics={},
        series=dict.fromkeys(SERIES, ()), outcomes={}, started_t=None, last_checkpoint=None, cause="needs 3.1G",
        connected=False,
    )  # fmt: skip


LIVE = (
    a_run(
        "heavy-3f9a",
        goal=GoalView(
            of="return", value=14.0, source="run.goal", newest=12.4, best=12.9, trend="nearer", low_s=7000, high_s=9800
        ),
    ),
    a_run(
        "wide-11c0",
        phase="update",
        timesteps=11_493_376,
        total_timesteps=50_000_000,
        steps_per_s=1388.0,
        eta_s=33_000.0,
        eta_low_s=32_900.0,
        eta_high_s=33_100.0,
        findings=(KL_FINDING,),
        metrics={
            "rollout/ep_rew_mean": 3.1,
            "rollout/ep_len_mean": 412.0,
            "train/approx_kl": 0.048,
            "train/clip_fraction": 0.31,
            "policy/entropy_ratio": 0.63,
            "train/explained_variance": 0.71,
            "train/learning_rate": 3e-4,
        },
    ),
    a_run("deep-77aa", state="paused", phase="paused", steps_per_s=None, eta_s=None, eta_low_s=None, eta_high_s=None),
)
ENDED = (
    ended("cart-9a10", 12, metrics={"rollout/ep_rew_mean": 500.0}),
    ended(
        "heavy-0b1e",
        95,
        "failed",
        kind="nan",
        timesteps=2_547_712,
        cause="policy loss became nan at update 311",
        last_checkpoint="002457600",
    ),
    ended("demo-51d2", 240, "stopped", timesteps=400_000, cause="stopped on request"),
    ended("beast-c0de", 1500, "killed", timesteps=900_000, cause="killed on request"),
    ended("demo-0001", 4000, "lost", timesteps=100_000, cause="the machine was restarted", course=None, best=None),
)


def host(**changed: Any) -> HostMeters:
    """A workstation that is busy but not full."""
    facts: dict[str, Any] = {
        "name": "gpu-box",
        "cores": 16,
        "cpu_percent": 74.0,
        "ram_used": 9 * GIB,
        "ram_total": 23 * GIB,
        "disk_free": 41 * GIB,
        "load_1m": 11.9,
        "gpu_note": "no GPU",
        "cpu_history": tuple(50 + 30 * math.sin(n / 3) for n in range(60)),
    }
    return HostMeters(**(facts | changed))


GPU = GpuMeters(
    uuid="GPU-1",
    name="NVIDIA RTX 4090",
    util=Utilisation(now=41.0, mean=38.0, max=98.0),
    memory_used=int(5.1 * GIB),
    memory_total=8 * GIB,
    power_w=212.0,
    temperature_c=61.0,
    history=tuple(95.0 if n % 9 < 3 else 12.0 for n in range(60)),
)


def a_fleet(
    runs: tuple[RunView, ...] = (*LIVE, queued("beast-0c1d"), *ENDED),
    *,
    gpus: tuple[GpuMeters, ...] = (GPU,),
    revision: int = 1,
) -> FleetSnapshot:
    """A snapshot at `NOW`."""
    return FleetSnapshot(
        revision=revision,
        t=NOW + revision - 1,
        runs_root="/home/ada/lab/runs",
        supervisor=SupervisorInfo(pid=4242, version="0.1.0", started_t=NOW - 90_000),
        host=host(),
        gpus=gpus,
        runs=runs,
        ended_total=sum(view.state in OVER for view in runs),
        parked_total=sum(view.state == "parked" for view in runs),
    )


BUSY = a_fleet(
    (
        structs.replace(
            LIVE[0], usage=Usage(312.0, int(3.1 * GIB), 19, 9, GIB), pids=Pids(10, 11, tuple(range(12, 20)))
        ),
        structs.replace(LIVE[1], usage=Usage(98.0, int(1.4 * GIB), 6, 1, 2 * GIB), pids=Pids(20, 21)),
        structs.replace(LIVE[2], usage=Usage(0.0, int(1.2 * GIB), 6, 1), pids=Pids(30, 31)),
        *ENDED,
    )
)
"""A fleet whose live runs have been looked at: the first takes most, the last holds memory and does nothing."""


HERE = MachineView(
    name="here", meters=HostMeters("desk", 4, cpu_percent=11.0), away=False, launches=True, runs_root="/r"
)
GPU1 = MachineView(
    name="gpu1", meters=HostMeters("gpu-box", 8, cpu_percent=37.0), live=2, launches=True, runs_root="/data"
)
LOST = MachineView(name="gpu2", lost_t=NOW - 180.0, why="Connection refused", live=1)


def several(*machines: MachineView) -> FleetSnapshot:
    """A live run on each machine, and one on this that has ended."""
    runs = [
        structs.replace(
            LIVE[0],
            id=f"id-{machine.name}",
            name=f"{machine.name}:far" if machine.away else "near",
            host=machine.name,
            unheard_since=machine.lost_t,
        )
        for machine in machines
    ]
    ended = a_run("old", state="ended", outcome="finished", host="here")
    return structs.replace(a_fleet((*runs, ended)), hosts=machines)
