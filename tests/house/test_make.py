"""The Makefile is the interface of the checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def test_make_run_without_a_terminal_says_what_to_do_instead(tmp_path: Path) -> None:
    """In a pipe `make run` exits 2 and names the verbs that need no screen."""
    command = tmp_path / "mission-tui"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mission_tui "$@"\n')
    command.chmod(0o755)
    # -o: the environment this test runs in is complete, so the one of the checkout is not made here.
    done = subprocess.run(
        ["make", "-o", ".venv/.running", "run", f"BIN={tmp_path}"],
        cwd=ROOT,
        env={**os.environ, "MISSION_TUI_RUNS": str(tmp_path / "runs")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "mission-tui status" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_make_help_lists_every_target() -> None:
    """A line for each target that a person may ask for, with what it is for; nothing is installed for it."""
    done = subprocess.run(["make", "help"], cwd=ROOT, env=_outside_make(), capture_output=True, text=True, check=True)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    listed = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert set(phony.split()) | {"bench-%"} == set(listed)
    assert all(listed.values())


def test_an_old_python_is_refused_with_a_remedy(tmp_path: Path) -> None:
    """Before anything is installed, an interpreter below 3.11 is named together with the way out."""
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = subprocess.run(
        ["make", "fast", f"VENV={tmp_path / 'env'}", f"PYTHON={old}"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "needs Python 3.11 or newer" in done.stderr
    assert not (tmp_path / "env").exists()


def test_every_install_line_is_constrained() -> None:
    """No install in the house takes versions that were never tried together."""
    documents = (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    lines = [
        line
        for path in (ROOT / "Makefile", ROOT / ".ci/run", *documents)
        if path.name != "CHANGELOG.md"
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"""\bpipx?"? install""", line)
    ]
    assert len(lines) >= 8
    assert [line for line in lines if "-c constraints.txt" not in line] == []


def normal(name: str) -> str:
    """A package's name as an index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_constraints_pin_what_this_environment_has() -> None:
    """Every package that an install brings is pinned, and the tests run with these very versions."""
    from importlib.metadata import distributions

    pins = dict(
        line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if line and line[0] != "#"
    )
    # Of the environment alone: setuptools, once imported, brings other versions of its own along.
    places = [sysconfig.get_path(name) for name in ("purelib", "platlib")]
    found = {normal(it.name): it.version.partition("+")[0] for it in distributions(path=places)}
    other = {name: found[normal(name)] for name, pin in pins.items() if found.get(normal(name), pin) != pin}
    assert other == {}
    assert {"torch", "textual", "stable-baselines3", "pytest"} <= set(pins)


def _outside_make() -> dict[str, str]:
    """Under `make test SYSTEM=1` it would be a make within make, which names the folders that it enters and has those
    words too.
    """
    words = {"MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "SYSTEM", "PYTHON", "VENV"}
    return {name: value for name, value in os.environ.items() if name not in words}


def _would_do(*words: str) -> str:
    command = ["make", "-n", *words]
    done = subprocess.run(command, cwd=ROOT, env=_outside_make(), capture_output=True, text=True, check=True)
    return done.stdout


def test_make_run_installs_what_running_needs_and_says_how_much(tmp_path: Path) -> None:
    """No test extra, with pip's progress, and the size beforehand; `make test` adds the tests' packages."""
    venv = f"VENV={tmp_path / 'env'}"
    running, testing = _would_do("run", venv), _would_do("fast", venv)
    assert "-e '.[tensorboard,notify,contrib,serve]'" in running
    assert "about 1.2 GB, most of it torch" in running
    assert "--progress-bar on" in running
    assert "-e '.[tensorboard,notify,contrib,serve,test]'" in testing


def test_make_run_can_take_the_torch_that_is_there(tmp_path: Path) -> None:
    """With SYSTEM=1 the environment sees what PYTHON has, of which nothing is pinned: a CUDA build of torch stays, and
    the setuptools that it wants.
    """
    lending, made = tmp_path / "lending", tmp_path / "made"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", lending], check=True)
    (packages,) = lending.glob("lib/python3*/site-packages")
    for name in ("torch-2.11.0+cu130", "setuptools-81.0.0", "typing_extensions-4.1.0"):
        (packages / f"{name}.dist-info").mkdir()
        words = "Metadata-Version: 2.1\nName: {}\nVersion: {}\n".format(*name.split("-"))
        (packages / f"{name}.dist-info" / "METADATA").write_text(words)
    (packages / "broken-1.dist-info").mkdir()  # as an interrupted installation leaves
    (packages / "broken-1.dist-info" / "METADATA").write_text("")
    taken = _would_do("run", "SYSTEM=1", f"VENV={made}", f"PYTHON={lending}/bin/python")
    assert "-m venv --system-site-packages" in taken
    made.mkdir()
    line = taken[taken.index(f"{lending}/bin/python -c 'import importlib") :].split("/constraints.txt", 1)[0]
    subprocess.run(["sh", "-c", f"{line}/constraints.txt"], cwd=ROOT, check=True)
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    kept = (made / "constraints.txt").read_text(encoding="utf-8").splitlines()
    dropped = {pin.partition("==")[0] for pin in pins if pin not in kept}
    assert dropped == {"torch", "setuptools", "typing-extensions"}
    assert f"-c {made}/constraints.txt -e" in taken
    assert "0.2 GB where it has torch 2.10 or newer" in taken
    assert "--no-compile -c constraints.txt -e" in _would_do("run", f"VENV={tmp_path / 'env'}")


def test_the_torch_of_another_virtual_environment_can_be_taken(tmp_path: Path) -> None:
    """`--system-site-packages` alone sees what is beneath an environment; what PYTHON has of its own is named too."""
    lending, made = tmp_path / "lending", tmp_path / "made"
    for folder in (lending, made):
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (module,) = lending.glob("lib/python3*/site-packages")
    (module / "heavy_torch.py").write_text("")
    words = _would_do("run", "SYSTEM=1", f"VENV={made}", f"PYTHON={lending}/bin/python")
    line = (
        words[words.index(f"{lending}/bin/python -c 'import sys; print(*[p") :].split('beside.pth"')[0] + 'beside.pth"'
    )
    subprocess.run(["sh", "-c", line], check=True)
    subprocess.run([made / "bin" / "python", "-c", "import heavy_torch"], check=True)


def test_a_system_that_cannot_is_refused_before_anything_is_installed(tmp_path: Path) -> None:
    """A Python of musl, or of macOS: one sentence, and where it works."""
    musl = tmp_path / "python3"
    musl.write_text('#!/bin/sh\ncase "$2" in *musl*) exit 1;; *) exit 0;; esac\n')
    musl.chmod(0o755)
    done = subprocess.run(
        ["make", "run", f"VENV={tmp_path / 'env'}", f"PYTHON={musl}"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "needs Linux with glibc" in done.stderr
    assert not (tmp_path / "env").exists()
