"""GPUs for tests: a stand-in for `libnvidia-ml.so.1`, first on the loader's path, that shows what a file says.

The stand-in reads the file at each call, so a test changes the machine while the probe looks at it.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

__all__ = ["GIB", "LIBRARY", "ONE", "TWO", "Machine", "build", "library", "machine", "needs_gcc", "stand_in_module"]

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")

REPOSITORY = Path(__file__).resolve().parents[2]
STUB = Path(__file__).with_name("stub.c")
LIBRARY = "libnvidia-ml.so.1"
GIB = 1 << 30
ONE = f"gpu GPU-a 40 {2 * GIB} {8 * GIB} 70000 61\n"
TWO = ONE + f"gpu GPU-b 90 {1 * GIB} {8 * GIB} 50000 55\n"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the stand-in, built once."""
    return build(tmp_path_factory.mktemp("nvml"))


def build(folder: Path, driver: int = 580) -> Path:
    """The stand-in as a driver of that release has it, in `folder`."""
    words = ["gcc", "-shared", "-fPIC", f"-DDRIVER={driver}", "-o", str(folder / LIBRARY), str(STUB)]
    subprocess.run(words, check=True)
    return folder


def stand_in_module(folder: Path, source: str) -> dict[str, str]:
    """Variables with which a process takes `source` for the module `pynvml`, and finds some library for it."""
    (folder / "pynvml.py").write_text(source)
    library = folder / LIBRARY
    library.unlink(missing_ok=True)
    library.symlink_to(msgspec._core.__file__)
    return {"PYTHONPATH": f"{folder}:{REPOSITORY}", "LD_LIBRARY_PATH": str(folder)}


class Machine:
    """The GPUs that the stand-in shows."""

    def __init__(self, library: Path, folder: Path) -> None:
        self.environ = {"LD_LIBRARY_PATH": str(library), "FAKE_NVML": str(folder / "machine")}
        self._file = folder / "machine"
        self.has(ONE)

    def has(self, lines: str) -> None:
        """Be so from the next call on."""
        part = self._file.with_suffix(".part")
        part.write_text(lines, encoding="ascii")
        part.replace(self._file)


@pytest.fixture
def machine(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with one GPU, for probes of this process."""
    made = Machine(library, tmp_path)
    for name, value in made.environ.items():
        monkeypatch.setenv(name, value)
    return made
