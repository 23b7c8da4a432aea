"""How fast trainings are on the card, launched as anybody would, beside stock SB3 on the same card."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

from benchmarks.fleet.lab import ROOT, Lab, opened, until
from benchmarks.fleet.shapes import as_options, spec_of
from benchmarks.gpu.items import NEVER_EVALUATED, Bench
from benchmarks.gpu.meters import Probe, probing
from benchmarks.gpu.right import one_by_one
from benchmarks.results import Row
from benchmarks.rows import bounded, compared, unmeasured
from mission_tui.fleet.events.metrics import UpdateDone
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.tuning.record import DeviceSpeeds
from mission_tui.trainer.building.device_speeds import MEASURE_S, NetShape, in_still_envs
from mission_tui.trainer.building.model import build_ppo, compare_devices, engine_options, ppo_arguments, use_tf32
from mission_tui.trainer.named_parts import make_env
from mission_tui.trainer.ppo import PPO, FastPPO

FIRST_S = 150.0
"""Until every run of a side has two updates."""


def trained(
    lab: Lab, preset: str, words: Sequence[str], runs: int, seconds: float, environ: Sequence[str] = ()
) -> list[list[UpdateDone]]:
    """The updates of `runs` runs after each one's first, of the seconds in which all of them were at work.

    Raises `RuntimeError` with the cause where one of them failed.
    """
    ids = lab.launch(preset, "-n", str(runs), "-j", str(runs), *as_options(words), *environ)
    try:
        until(lambda: _under_way(lab, ids), FIRST_S, f"two updates of each of {runs} runs of {preset}", 0.2)
        time.sleep(seconds)
        return [lab.updates(run)[1:] for run in ids]
    finally:
        lab.kill(*ids)


def _under_way(lab: Lab, ids: Sequence[str]) -> bool:
    views = lab.views()
    failed = [views[run] for run in ids if views[run].state in OVER]
    if failed:
        raise RuntimeError(f"{failed[0].name} ended: {failed[0].outcome}, {failed[0].cause}")
    return all(len(lab.updates(run)) >= 3 for run in ids)


def rate(rows: Sequence[UpdateDone], transitions: int) -> float:
    """Steps per second of one run."""
    return transitions * len(rows) / sum(row.rollout_s + row.update_s for row in rows)


def split(rows: Sequence[UpdateDone]) -> str:
    """Where its time goes."""
    rollout, update = sum(row.rollout_s for row in rows), sum(row.update_s for row in rows)
    return f"{update / (rollout + update):.0%} of the time in updates"


def _subproc(preset: str, bench: Bench, words: Sequence[str]) -> float:
    """Steps per second of stock SB3's script on the same device."""
    with tempfile.TemporaryDirectory(prefix="sb3-") as name:
        folder = Path(name)
        argv = [sys.executable, "-m", "benchmarks.fleet.sb3_subproc", preset, *words]
        argv += ["--folder", name, "--name", "0", "--seconds", str(bench.seconds), "--device", bench.device]
        process = subprocess.Popen(argv, cwd=ROOT, start_new_session=True)
        try:
            (folder / "go").touch()
            answer = folder / "0.json"
            until(lambda: answer.exists() or process.poll() is not None, FIRST_S, "stock SB3's answer", 0.2)
            return float(json.loads(answer.read_text())["steps_per_s"])
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


TOGETHER = "four at once against one alone, summed steps/s"


def _together(
    lab: Lab, preset: str, bench: Bench, transitions: int, one: list[float], at_least: float | None = None
) -> list[Row]:
    """Several runs of `preset` against `one`, in steps per second, and what they make of the card."""
    with probing() as probe:
        four = trained(lab, preset, bench.shape, bench.at_once, bench.seconds)
    summed = [sum(rate(each, transitions) for each in four)]
    row = compared(f"`{preset}`, {TOGETHER}", "steps/s", summed, "one, alone", one, at_least)
    return [row, *_of_card(preset, "four", "four at once", probe, bench, summed[0])]


def _preset(preset: str, bench: Bench, at_once: float | None = None, *, together: bool = True) -> list[Row]:
    words = bench.shape
    spec = spec_of(preset, words)
    transitions = spec.env.n_envs * spec.ppo.n_steps
    rows: list[Row] = []
    single: list[UpdateDone] = []
    with opened() as lab:
        with probing() as probe:
            alone = trained(lab, preset, words, 1, bench.seconds)[0]
        one = [rate(alone, transitions)]
        rows += _of_card(preset, "busy", "one run", probe, bench, one[0])
        note = f"split: {split(alone)}" if preset == "heavy" else split(alone)
        stock = (*words, "run.engine=stock", *(("env.vec=inline",) if spec.env.vec != "native" else ()))

        def by_stock_engine() -> float:
            single.extend(trained(lab, preset, stock, 1, bench.seconds)[0])
            return rate(single, transitions)

        peers: list[tuple[str, Callable[[], float]]] = [("SB3's engine, one process, same device", by_stock_engine)]
        if spec.env.vec != "native":
            peers.append(("stock SB3, SubprocVecEnv, same device", lambda: _subproc(preset, bench, words)))
        for against, measure in peers:
            what = f"`{preset}`, one run, steps/s"
            try:
                rows.append(compared(what, "steps/s", one, against, [measure()], None, note))
            except (RuntimeError, TimeoutError, OSError) as error:
                rows.append(bounded(what, "steps/s", one, note=f"{note}; {against}: {error}"))
        if together:
            try:
                rows += _together(lab, preset, bench, transitions, one, at_once)
            except (RuntimeError, TimeoutError) as error:
                rows.append(unmeasured(f"`{preset}`, {TOGETHER}", "", str(error)))
    what, goal = f"`{preset}`, update phase", 3.0 if preset == "beast" else None
    if single:
        seconds = [statistics.fmean(row.update_s for row in side) for side in (alone, single)]
        ours, theirs = [1 / seconds[0]], [1 / seconds[1]]
        rows.append(compared(what, "updates/s", ours, "SB3's engine, same device", theirs, goal))
    return rows


def _of_card(preset: str, claim: str, how_many: str, probe: Probe, bench: Bench, steps_per_s: float) -> list[Row]:
    """How busy the card was while all were at work, what of its memory was in use, and energy.

    The note of the first is for what the sources claim.
    """
    percent = probe.mean_busy(bench.seconds)
    if percent is None:
        return []
    what = f"`{preset}`, {how_many}"
    rows = [bounded(f"{what}: the card busy", "%", [percent], note=f"{claim} {preset}: {percent:.0f} %")]
    most = max((gpu.memory_used or 0) for _, line in probe.lines for gpu in line.gpus) / 2**20
    rows.append(bounded(f"{what}: memory of the card in use", "MiB", [most]))
    if watts := [drawn for _, drawn in probe.watts(bench.seconds) if drawn > 0]:
        note = f"{statistics.fmean(watts):.0f} W"
        joules = statistics.fmean(watts) / steps_per_s * 1e6
        rows.append(bounded(f"{what}: energy of the card per million steps", "J", [joules], note=note))
    return rows


def fast(bench: Bench) -> list[Row]:
    """16 x 256 transitions, 512-512."""
    return _preset("fast", bench)


def heavy(bench: Bench) -> list[Row]:
    """32 x 256 transitions, 1024-512-256."""
    return _preset("heavy", bench, 2.5)


def beast(bench: Bench) -> list[Row]:
    """64 x 512 transitions, 1024-512-512-256."""
    return _preset("beast", bench, together=False)


def swarm(bench: Bench) -> list[Row]:
    """2,048 environments that are stepped at once."""
    return _preset("swarm", bench, together=False)


def at_once(bench: Bench) -> list[Row]:
    """Four `beast` and four `swarm` against one; of the others that stands beside their peers, which take less long."""
    rows: list[Row] = []
    for preset in ("swarm",) if bench.small else ("beast", "swarm"):
        spec = spec_of(preset, bench.shape)
        transitions = spec.env.n_envs * spec.ppo.n_steps
        with opened() as lab:
            one = [rate(trained(lab, preset, bench.shape, 1, bench.seconds)[0], transitions)]
            rows += _together(lab, preset, bench, transitions, one)
    return rows


def small_nets(bench: Bench) -> list[Row]:
    """Whole trainings on either, and what `check`, `tune` and a launch say of the net after a few seconds."""
    words = (
        "env.n_envs=16",
        "env.vec=inline",
        NEVER_EVALUATED,
        *(("ppo.n_steps=32", "ppo.batch_size=64") if bench.small else ()),
    )
    spec = spec_of("cartpole", words)
    speeds = _net_alone(spec, bench)
    transitions = spec.env.n_envs * spec.ppo.n_steps
    found = []
    with opened() as lab:
        for device in ("cpu", bench.device):
            rows = trained(lab, "cartpole", (*words, f"run.device={device}"), 1, bench.seconds)[0]
            found.append(rate(rows, transitions))
    what = "16 x CartPole, steps/s on the CPU"
    return [
        compared(what, "steps/s", found[:1], bench.device, found[1:], None, speeds.sentence),
        *(_where_it_pays(preset, bench) for preset in (() if bench.small else ("fast", "heavy"))),
    ]


def _where_it_pays(preset: str, bench: Bench) -> Row:
    """The same sentence for a larger net."""
    speeds = _net_alone(spec_of(preset, bench.shape), bench)
    rates = [[1 / seconds for seconds in side] for side in (speeds.cpu_s, speeds.gpu_s)]
    what = f"net of `{preset}`, updates/s on the CPU"
    return compared(what, "updates/s", rates[0], bench.device, rates[1], None, speeds.sentence)


def _net_alone(spec: Spec, bench: Bench) -> DeviceSpeeds:
    """By one thread, as runs beside others have it."""
    th.set_num_threads(1)
    within_s = bench.seconds if bench.small else MEASURE_S
    return compare_devices(spec, _shape(spec), ppo_arguments(spec), bench.device, within_s=within_s)


def _shape(spec: Spec) -> NetShape:
    env = make_env(spec.env, None, around=lambda made: made)
    shape = NetShape(env.observation_space, env.action_space, spec.env.n_envs)
    env.close()
    return shape


def update(bench: Bench) -> list[Row]:
    """Rollouts and updates of each preset's net by the engines themselves, in environments that cost nothing."""
    rows = []
    for preset in ("cartpole",) if bench.small else ("fast", "heavy", "beast"):
        spec = spec_of(preset, bench.shape)
        plain = _Engine(spec, bench)
        plain_ms = plain.step_ms()
        rows.append(bounded(f"`{preset}` net, a gradient step", "ms", [plain_ms], note=plain.where_time_goes()))
        lanes, rollout_ms = spec.env.n_envs, plain.rollout_ms()
        with one_by_one():
            slow_ms = _Engine(spec, bench).rollout_ms()
        what = f"`{preset}` net, {lanes} actions of a rollout"
        rows.append(compared(what, "steps/s", [1000 / rollout_ms], "kernels one by one", [1000 / slow_ms], None))
        ways: dict[str, Callable[[], float]] = {
            "SB3's own engine": lambda spec=spec: _Engine(spec, bench, engine="stock").step_ms(),  # type: ignore[misc]
            "TF32": lambda spec=spec: _Engine(spec, bench, tf32=True).step_ms(),  # type: ignore[misc]
            "bf16": lambda spec=spec: _Engine(spec, bench, precision="bf16").step_ms(),  # type: ignore[misc]
            "kernels one by one": lambda spec=spec: _one_by_one_ms(spec, bench),  # type: ignore[misc]
        }
        if preset == "heavy":  # compiling takes half a minute each
            ways["torch.compile"] = lambda spec=spec: _Engine(spec, bench, compile=True).step_ms()  # type: ignore[misc]
        for way, measure in ways.items():
            what = f"`{preset}` net, gradient steps/s"
            try:
                rows.append(compared(what, "steps/s", [1000 / plain_ms], way, [1000 / measure()], None))
            except Exception as error:  # noqa: BLE001 - compilers and drivers refuse in many ways
                rows.append(unmeasured(what, "", " ".join(str(error).split())[:300]))
            finally:
                use_tf32("cpu", wanted=False)
    return rows


def images(bench: Bench) -> list[Row]:
    """8 lanes of 128 steps, minibatches of 256."""
    n_steps, batch_size = (8, 32) if bench.small else (128, 256)
    words = ("ppo.policy=CnnPolicy", "env.n_envs=8", f"ppo.n_steps={n_steps}", f"ppo.batch_size={batch_size}")
    spec = spec_of("cartpole", (f"run.device={bench.device}", *words))
    shape = NetShape(spaces.Box(0, 255, (4, 84, 84), np.uint8), spaces.Discrete(6), 8)
    ours = _Engine(spec, bench, shape)
    with one_by_one():
        single = _Engine(spec, bench, shape)
        single_ms, single_rollout_ms = single.step_ms(), single.rollout_ms()
    stock = _Engine(spec, bench, shape, engine="stock")
    found = {
        "a gradient step": (ours.step_ms(), single_ms, stock.step_ms()),
        "8 actions of a rollout": (ours.rollout_ms(), single_rollout_ms, stock.rollout_ms()),
    }
    return [
        compared(f"net for Atari, {what}", "per s", [1000 / graph], against, [1000 / other], None)
        for what, (graph, single_ms, stock_ms) in found.items()
        for against, other in (("kernels one by one", single_ms), ("SB3's own engine", stock_ms))
    ]


def _one_by_one_ms(spec: Spec, bench: Bench) -> float:
    with one_by_one():
        return _Engine(spec, bench).step_ms()


class _Engine:
    """The model of a spec with `run` settings changed, its rollout collected."""

    def __init__(self, spec: Spec, bench: Bench, shape: NetShape | None = None, **run: Any) -> None:
        self._bench = bench
        self._epochs = 2 if bench.small else 10
        spec = msgspec.structs.replace(spec, run=msgspec.structs.replace(spec.run, **run))
        arguments = {**ppo_arguments(spec), "n_epochs": self._epochs, "target_kl": None}
        options = engine_options(spec)
        use_tf32(bench.device, wanted=spec.run.tf32)

        def build(kept: dict[str, Any], vec: VecEnv, device: str) -> PPO:
            return build_ppo(kept, vec, None, device, spec.ppo.algo, **options)

        self._model = in_still_envs(build, shape or _shape(spec), arguments, bench.device)
        if spec.run.compile:
            assert isinstance(self._model, FastPPO)
            self._model.warm_up(lambda: False)
        self._steps = self._epochs * -(-spec.env.n_envs * spec.ppo.n_steps // self._model.batch_size)
        self._model.collect()
        self._model.update()

    def step_ms(self) -> float:
        """Of one gradient step, its share of what an update does besides included."""
        return self._timed_ms(self._model.update, 2 if self._bench.small else 5) / self._steps

    def rollout_ms(self) -> float:
        """Of one step of a rollout, its share of values and advantages included."""
        return self._timed_ms(self._model.collect, 1 if self._bench.small else 3) / self._model.n_steps

    def where_time_goes(self) -> str:
        """How many kernels a gradient step is, and for how much of an update the card computes."""
        if not self._bench.on_cuda:
            return "kernels are counted on CUDA only"
        with th.profiler.profile(activities=[th.profiler.ProfilerActivity.CUDA]) as seen:
            self._model.update()
            th.cuda.synchronize()
        kernels = [event for event in seen.events() or [] if event.device_type.name == "CUDA"]
        busy_ms = sum(event.time_range.elapsed_us() for event in kernels) / 1000
        whole_ms = self.step_ms() * self._steps
        return f"{len(kernels) / self._steps:.0f} kernels and copies, which compute for {busy_ms / whole_ms:.0%} of it"

    def _timed_ms(self, work: Callable[[], object], times: int) -> float:
        """The median of `times`, with the device's queue empty before and after."""
        work()
        took = []
        for _ in range(times):
            self._wait()
            begun = time.perf_counter()
            work()
            self._wait()
            took.append((time.perf_counter() - begun) * 1000)
        return statistics.median(took)

    def _wait(self) -> None:
        if self._bench.on_cuda:
            th.cuda.synchronize()
