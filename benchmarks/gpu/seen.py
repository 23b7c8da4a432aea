"""Whether the meters tell the truth about a load that is known, and what runs cost that share a card."""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch as th

from benchmarks.fleet.lab import Lab, opened
from benchmarks.fleet.shapes import as_options, spec_of
from benchmarks.gpu.fast import rate, trained
from benchmarks.gpu.items import Bench
from benchmarks.gpu.meters import probing
from benchmarks.results import Row
from benchmarks.rows import bounded, compared, unmeasured

DUTY, PERIOD_S = 0.3, 1.0
WATCHED_S = 20.0
MPS = "nvidia-cuda-mps-control"


def load(bench: Bench) -> list[Row]:
    """Products for 0.3 s of every second: the mean of the gauge, its peak, and the process's share."""
    side = 256 if bench.small else 8192
    matrix = th.randn(side, side, device=bench.device)
    ends = time.monotonic() + (1.0 if bench.small else WATCHED_S)
    with probing() as probe:
        while (begun := time.monotonic()) < ends:
            while time.monotonic() - begun < DUTY * PERIOD_S:
                matrix @ matrix
                if bench.on_cuda:
                    th.cuda.synchronize()
            time.sleep(max(0.0, PERIOD_S - (time.monotonic() - begun)))
    known = 100 * DUTY
    what = "busy gauge, mean under a load of 30 %"
    if why := probe.why_none:
        return [unmeasured(what, "20 to 40 %", why)]
    peak = max((gpu.busy.most for _, line in probe.lines for gpu in line.gpus if gpu.busy), default=0.0)
    held, shares = probe.of_processes({os.getpid()})
    rows = [
        bounded(
            what,
            "%",
            [probe.mean_busy(bench.seconds) or 0.0],
            at_least=20,
            at_most=40,
            note=f"peak {peak:.0f} %; the load is {known:.0f} %",
        )
    ]
    if shares:
        rows.append(bounded("the process's own share under it", "%", [statistics.fmean(shares)], at_least=10))
    else:
        rows.append(unmeasured("the process's own share under it", "", "the driver tells no process's share"))
    allocated = th.cuda.memory_reserved() if bench.on_cuda else 0
    note = f"torch reserved {allocated / 2**20:.0f} MiB, the rest is the context"
    return [*rows, bounded("memory of the process as the meters show it", "MiB", [held / 2**20], note=note)]


def runs(bench: Bench) -> list[Row]:
    """`heavy` alone and two at once: where placement puts them, and what a second one costs the first."""
    preset = "heavy"
    spec = spec_of(preset, bench.shape)
    transitions = spec.env.n_envs * spec.ppo.n_steps
    rows = []
    rates: dict[int, list[float]] = {}
    for many in (1, 2):
        with opened() as lab, probing() as probe:
            reserved = _reserved_bytes(lab, preset, bench)
            ids = trained(lab, preset, bench.shape, many, bench.seconds)
            views = list(lab.views().values())
            rates[many] = [rate(each, transitions) for each in ids]
        placed = ", ".join(str(view.placed.number) for view in views if view.placed is not None)
        note = f"placed on GPU {placed}" if placed else "nothing to choose between"
        name = f"`{preset}`, {many} at once"
        rows.append(bounded(f"{name}: summed steps/s", "steps/s", [sum(rates[many])], note=note))
        if why := probe.why_none:
            rows.append(unmeasured(f"{name}: memory", "", why))
            continue
        most = max((gpu.memory_used or 0) for _, line in probe.lines for gpu in line.gpus) / 2**20
        kept = "reserved for each" if reserved is None else f"{reserved / 2**20:.0f} MiB were reserved for each"
        rows.append(bounded(f"{name}: memory of the card in use", "MiB", [most], note=kept))
        if many == 1 and reserved is not None and most:
            times = reserved / 2**20 / most
            rows.append(bounded("what is reserved for one, of what it takes", "x", [times], at_least=1.0, at_most=1.5))
    share = statistics.fmean(rates[2]) / rates[1][0]
    rows.append(bounded("what each of two keeps of its speed alone", "x", [share]))
    return rows


def _reserved_bytes(lab: Lab, preset: str, bench: Bench) -> int | None:
    """What placement keeps free of a card for one such run, before one was ever seen; None where it uses none."""
    cost = lab.cli("launch", preset, "--dry-run", *as_options(bench.shape))["runs"][0]["cost"]
    return None if cost["vram_bytes"] is None else int(cost["vram_bytes"])


def mps(bench: Bench) -> list[Row]:
    """Without and with the service, which is started in a folder of its own and ended."""
    what = "four `heavy` at once with MPS against without, summed steps/s"
    if shutil.which(MPS) is None:
        return [unmeasured(what, "", f"{MPS} is not installed")]
    spec = spec_of("heavy", bench.shape)
    transitions = spec.env.n_envs * spec.ppo.n_steps

    def summed(environ: dict[str, str]) -> float:
        with opened(**environ) as lab, probing() as probe:
            found = sum(
                rate(each, transitions) for each in trained(lab, "heavy", bench.shape, bench.at_once, bench.seconds)
            )
        busy.append(probe.mean_busy(bench.seconds) or 0.0)
        return found

    busy: list[float] = []
    without = summed({})
    with tempfile.TemporaryDirectory(prefix="mps-") as folder, _service(folder) as environ:
        beside = summed(environ)
    note = f"{busy[0]:.0f} % busy without MPS, {busy[1]:.0f} % with"
    return [compared(what, "steps/s", [beside], "without MPS", [without], None, note)]


@contextmanager
def _service(folder: str) -> Iterator[dict[str, str]]:
    environ = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
    everything = {**os.environ, **environ}
    subprocess.run([MPS, "-d"], env=everything, check=True, timeout=30)
    try:
        yield environ
    finally:
        with contextlib.suppress(subprocess.SubprocessError):
            subprocess.run([MPS], input=b"quit\n", env=everything, check=False, timeout=30)
