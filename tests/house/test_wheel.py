"""The wheel, as a user has it: built, installed away from the checkout, used from `/`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mission_tui.paths import socket_dir

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    words = [
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(folder),
        str(ROOT),
    ]
    subprocess.run([sys.executable, *words], check=True)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def program(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`mission-tui` from the wheel, in an environment that sees this one's packages after its own."""
    venv = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(venv), "platbase": str(venv)}))
    # A plain path in a .pth is appended after this environment's own packages and its own .pth files are not
    # followed: the wheel's copy wins and the checkout's editable install stays out of sight.
    (site / "tests-environment.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    pip = [sys.executable, "-m", "pip", "--python", str(venv / "bin" / "python"), "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True)
    return venv / "bin" / "mission-tui"


@pytest.fixture
def environ(tmp_path: Path, program: Path) -> Iterator[dict[str, str]]:
    """A user's environment with nothing of the checkout in it; its supervisor is ended with the test."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("MISSION_TUI", "XDG_", "PYTHON"))}
    made = ours | {
        "HOME": str(tmp_path),
        "MISSION_TUI_RUNS": str(tmp_path / "runs"),
        "OMP_NUM_THREADS": "1",
        "MISSION_TUI_LEDGER": "off",
    }
    yield made
    if (tmp_path / "runs").exists():
        subprocess.run([program, "supervisor", "stop", "--with-runs"], cwd="/", env=made, check=True, timeout=60)
        shutil.rmtree(socket_dir(tmp_path / "runs"), ignore_errors=True)


def test_the_wheel_holds_presets_missions_styles_and_the_licence(wheel: Path) -> None:
    """What is not Python ships as well."""
    names = zipfile.ZipFile(wheel).namelist()
    assert "mission_tui/presets/demo.toml" in names
    assert "mission_tui/envs/missions/demo/rules.toml" in names
    assert any(name.endswith(".tcss") for name in names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any(name.startswith(("tests/", "runs/", "benchmarks/")) for name in names)


def test_presets_are_listed_from_the_root_folder(program: Path, environ: dict[str, str]) -> None:
    """From `/`, the presets are those inside the wheel."""
    done = subprocess.run(
        [program, "presets", "--json"], cwd="/", env=environ, capture_output=True, text=True, check=True
    )
    presets = {preset["name"]: preset for preset in json.loads(done.stdout)["presets"]}
    assert {"demo", "fast", "heavy", "beast", "trio", "cartpole"} <= set(presets)
    assert all(preset["path"].startswith(str(program.parents[1])) for preset in presets.values())


def test_a_run_launched_from_the_wheel_finishes(program: Path, environ: dict[str, str]) -> None:
    """From `/`, a small training runs to its end through supervisor, keeper and trainer of the wheel."""
    words = ["launch", "cartpole", "--set", "run.total_timesteps=1024", "--wait", "--json"]
    done = subprocess.run([program, *words], cwd="/", env=environ, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    assert run["outcome"] == "finished"
    assert run["timesteps"] >= 1024
