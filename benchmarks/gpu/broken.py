"""What breaks on a card, done for real: the sentence that a user gets, and what is left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from benchmarks.fleet.lab import ROOT, Lab, opened, until
from benchmarks.fleet.shapes import as_options, spec_of
from benchmarks.gpu.items import Bench
from benchmarks.gpu.meters import probing
from benchmarks.results import Row
from benchmarks.rows import bounded, unmeasured
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.views.snapshot import RunView
from tests.trainer.harness import new_run, run_attempt

MIB = 2**20
ENDS_S = 90.0

_KERNELS = """
import sys
import torch
device = sys.argv[1]
held = torch.ones(256 << 20 if device.startswith("cuda") else 1 << 20, dtype=torch.float32, device=device)
side = 8192 if device.startswith("cuda") else 512
matrix = torch.randn(side, side, device=device)
print("ready", flush=True)
while True:
    for _ in range(50):
        matrix @ matrix
    if device.startswith("cuda"):
        torch.cuda.synchronize()
"""
_HOG = """
import sys
import torch
free, _ = torch.cuda.mem_get_info()
held = torch.empty(max(1, free - int(sys.argv[1])), dtype=torch.uint8, device="cuda")
print("ready", flush=True)
sys.stdin.read()
"""
_ASSERT = """
import sys
import torch
from mission_tui.trainer.failures import classify
try:
    values = torch.zeros(3, device=sys.argv[1])
    print(values[torch.tensor([7], device=sys.argv[1])].sum().item())
except Exception as error:
    failure = classify(error)
    print(f"{failure.kind}: {failure.cause}")
"""


def _started(code: str, *words: str, environ: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """A process that has said that it is ready. Raises `RuntimeError` where it did not."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=None if environ is None else {**os.environ, **environ},
    )
    assert process.stdout is not None
    if process.stdout.readline().strip() != "ready":
        process.kill()
        process.wait()
        raise RuntimeError("the process that was to use the card ended before it was ready")
    return process


def kill(bench: Bench) -> list[Row]:
    """From SIGKILL until the card has nearly all of its memory again, by its own gauge."""
    what, least = "kill -9 in a kernel: until the card's memory is free again", (0 if bench.small else 256) * MIB
    with probing() as probe:
        until(lambda: probe.lines, 30.0, "the probe says something")
        if why := probe.why_none:
            return [unmeasured(what, "<= 2 s", why)]
        before = probe.memory_used
        process = _started(_KERNELS, bench.device)
        try:
            until(lambda: probe.memory_used >= before + least, 15.0, "the card's memory is in use")
            held = probe.memory_used - before
        finally:
            process.kill()
            killed = time.monotonic()
            process.wait()
        until(lambda: probe.memory_used <= before + held // 10, 30.0, "the card's memory is free")
        freed_s = time.monotonic() - killed
    return [bounded(what, "s", [freed_s], at_most=2.0, note=f"it held {held / MIB:.0f} MiB; looked at once a second")]


def memory(bench: Bench) -> list[Row]:
    """Another process holds nearly all; then a run is launched that needs more than what is left."""
    what = "a run that finds no memory on the card ends as"
    if not bench.on_cuda:
        return [unmeasured(what, "oom", "a CPU's memory is not filled for a trial")]
    hog = _started(_HOG, str(1000 * MIB))
    try:
        # A net that is made at once and needs a gigabyte for a minibatch.
        shape = ("ppo.n_steps=2048", "ppo.batch_size=32768", "ppo.net_arch=[1024,1024]")
        words = (*shape, "run.total_timesteps=65536")
        rows = _ended(bench, {}, "no memory left on the card at its launch", "fast", words)
        with tempfile.TemporaryDirectory(prefix="mission-gpu-") as name:
            # Placement would let it wait: so here the trainer alone is asked.
            spec = spec_of("fast", (*bench.shape, *words))
            ran = run_attempt(new_run(Path(name) / "run", spec))
            how = ran.ended()
            said = f"{how.failure}: {how.cause}"
        rows.append(bounded(what, "of 1", [float(how.failure == "oom")], at_least=1, note=said))
    finally:
        hog.kill()
        hog.wait()
    return rows


def _ended(
    bench: Bench,
    environ: Mapping[str, str],
    why: str,
    preset: str = "cartpole",
    words: tuple[str, ...] = ("run.total_timesteps=4096",),
) -> list[Row]:
    """How a run ends under that, or that it trains."""
    with opened(**environ) as lab:
        run = lab.launch(preset, *as_options((*bench.shape, *words)))[0]
        with suppress(TimeoutError):  # it waits, which is an answer too
            until(lambda: _settled(lab, run), ENDS_S, "the run trains, ends or waits for memory", 0.2)
        view = _view(lab, run)
        if view.state not in OVER:
            lab.kill(run)
    failed = view.outcome == "failed"
    said = f"{view.kind or 'failed'}: {view.cause}" if failed else f"{view.state}, {view.phase or view.cause}"
    return [bounded(f"{why}: the run", "failed", [float(failed)], note=said)]


def _settled(lab: Lab, run: str) -> bool:
    view = _view(lab, run)
    return view.state in OVER or bool(lab.updates(run)) or (view.state == "queued" and view.cause is not None)


def _view(lab: Lab, run: str) -> RunView:
    return lab.views()[run]


def device_assert(bench: Bench) -> list[Row]:
    """An index out of range, which a card notices in a kernel."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", _ASSERT, bench.device],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    said = done.stdout.strip().splitlines()
    note = said[-1][:300] if said else f"exit code {done.returncode}: {done.stderr.strip()[-200:]}"
    return [bounded("an index out of range on the device is called a failure", "of 1", [float(bool(said))], note=note)]


def visible(bench: Bench) -> list[Row]:
    """Each as the variable of the shell that launches."""
    uuid = ""
    with probing() as probe:
        until(lambda: probe.lines, 30.0, "the probe says something")
    for _, line in probe.lines:
        uuid = next((gpu.uuid for gpu in line.gpus), uuid)
    cases = {"empty": "", "wrong": "7", "a UUID": uuid or "GPU-0", "a MIG name": "MIG-GPU-0/1/0"}
    rows = []
    for name, value in list(cases.items())[: 1 if bench.small else None]:
        try:
            rows += _ended(bench, {"CUDA_VISIBLE_DEVICES": value}, f"CUDA_VISIBLE_DEVICES {name} ({value!r})")
        except (subprocess.CalledProcessError, TimeoutError) as error:
            rows.append(unmeasured(f"CUDA_VISIBLE_DEVICES {name}", "", str(error)))
    return rows


def hidden(bench: Bench) -> list[Row]:
    """A file that is no library stands first on the loader's path."""
    with tempfile.TemporaryDirectory(prefix="nvml-") as name:
        Path(name, "libnvidia-ml.so.1").write_text("no library\n")
        environ = {**os.environ, "PYTHONPATH": str(ROOT), "LD_LIBRARY_PATH": name}
        words = [sys.executable, "-m", "mission_tui", "--runs-dir", f"{name}/runs", "doctor", "--json"]
        done = subprocess.run(words, env=environ, cwd=name, capture_output=True, text=True, check=False, timeout=50)
    checks = [check for check in json.loads(done.stdout)["checks"] if check["name"] == "gpu"]
    note = "; ".join(f"{check['level']}: {check['detail']}" for check in checks)
    what = "`doctor` says it where the library is none"
    return [bounded(what, "of 1", [float(bool(checks))], at_least=1, note=note)]
