"""GPUs that are not there: the tests' stand-in for `libnvidia-ml.so.1`, so that sampling costs what it costs anywhere.

The stand-in reads a file at each call, which costs the probe about as much as a driver's call does; nothing of it runs
in the supervisor.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.fleet.lab import ROOT

__all__ = ["HAVE_GCC", "StubGpus", "stub_gpus"]

HAVE_GCC = shutil.which("gcc") is not None
GIB = 2**30


class StubGpus:
    """Two GPUs of 24 GiB under a square wave of load, as their `environ` shows them to whoever loads NVML."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "machine"
        self.environ = {"LD_LIBRARY_PATH": str(folder), "FAKE_NVML": str(self._file)}
        self.hold(())

    def hold(self, pids: Sequence[int]) -> None:
        """Have these processes hold a GiB each, and use a part of a GPU, one on this and the next on that."""
        lines = [f"gpu GPU-{place} 40 {16 * GIB} {24 * GIB} 90000 61" for place in range(2)] + ["wave 300 2000"]
        for number, pid in enumerate(pids):
            lines += [f"process {number % 2} {pid} {GIB}", f"using {number % 2} {pid} 12"]
        part = self._file.with_suffix(".part")
        part.write_text("\n".join(lines) + "\n", encoding="ascii")
        part.replace(self._file)


@contextmanager
def stub_gpus() -> Iterator[StubGpus]:
    """The stand-in, built anew. Raises `CalledProcessError` where it cannot be."""
    with tempfile.TemporaryDirectory(prefix="mission-nvml-") as folder:
        library = Path(folder) / "libnvidia-ml.so.1"
        source = ROOT / "tests" / "nvml" / "stub.c"
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-w", "-o", str(library), str(source)], check=True)
        yield StubGpus(Path(folder))
