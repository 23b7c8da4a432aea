"""What a Python without mission-tui is lent, and what it is told; with real venvs and packages that are only names."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mission_tui.trainer import foreign_python
from mission_tui.trainer.foreign_python import LENT, NEEDED

VERSION = "9.9.9"
PROBE = """
import os, sys, msgspec, tomli_w
print(msgspec.__file__, tomli_w.__file__, sys.argv, os.getcwd() in sys.path, sys.path[-1], os.environ["PYTHONPATH"])
"""


def package(folder: Path, module: str, text: str = "") -> Path:
    """A package with nothing in it; returns the folder that it lies in."""
    (folder / module).mkdir(parents=True)
    (folder / module / "__init__.py").write_text(text, encoding="utf-8")
    return folder


def older_pythons() -> list[str]:
    """Interpreters of this machine that are not new enough for a trainer."""
    names = [f"python3.{minor}" for minor in (8, 9, 10)]
    kept = (
        Path.home().glob(".pyenv/versions/3.[89].*/bin/python3"),
        Path.home().glob(".pyenv/versions/3.10.*/bin/python3"),
    )
    found = [shutil.which(name) for name in names] + [str(path) for paths in kept for path in paths]
    return [path for path in found if path is not None and "shims" not in path]


class Place:
    """A venv with all that trainers need but for `without`, and every lendable package to borrow."""

    def __init__(self, folder: Path, without: tuple[str, ...] = ("tomli_w", "mission_tui")) -> None:
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
        (self.packages,) = (folder / "venv").glob("lib/python3*/site-packages")
        for name, need in NEEDED.items():
            if need.module not in without:
                package(self.packages, need.module)
                self.installed(name, f"{need.low}.1")
        lent = {module: package(folder / "lent" / module, module) for module in ("msgspec", "tomli_w", "mission_tui")}
        (lent["mission_tui"] / "mission_tui" / "probe.py").write_text(PROBE, encoding="utf-8")
        self.lent = {module: str(path) for module, path in lent.items()}

    def installed(self, name: str, version: str) -> None:
        """Say that distribution `name` is here in `version`."""
        metadata = self.packages / f"{name.replace('-', '_')}-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", "utf-8")

    def start(self, module: str = "mission_tui.probe") -> subprocess.CompletedProcess[str]:
        """Be `module` with one argument, in a folder of its own."""
        lent = json.dumps({"version": VERSION, **self.lent})
        return subprocess.run(
            [str(self.folder / "venv" / "bin" / "python"), foreign_python.__file__, module, "word"],
            cwd=self.folder,
            env={"PATH": os.defpath, LENT: lent},
            capture_output=True,
            text=True,
            timeout=30,
        )


def test_only_what_is_lacking_is_lent_and_it_comes_last(tmp_path: Path) -> None:
    """The venv's own msgspec stays; children find what was lent, and the arguments are the module's own."""
    place = Place(tmp_path)
    done = place.start()
    assert done.returncode == 0, done.stderr
    borrowed = [place.lent["mission_tui"], place.lent["tomli_w"]]
    said = [
        str(place.packages / "msgspec" / "__init__.py"),
        str(Path(place.lent["tomli_w"], "tomli_w", "__init__.py")),
        str([str(Path(place.lent["mission_tui"], "mission_tui", "probe.py")), "word"]),
        "False",
        borrowed[-1],
        os.pathsep.join(borrowed),
    ]
    assert done.stdout.strip() == " ".join(said)


def test_what_is_compiled_for_another_python_is_not_lent(tmp_path: Path) -> None:
    """The sentence says what to install; a trainer says it in its log, a short process as JSON."""
    place = Place(tmp_path, without=("msgspec", "mission_tui"))
    Path(place.lent["msgspec"], "msgspec", "_core.cpython-399-x86_64-linux-gnu.so").touch()
    done = place.start()
    assert done.returncode == 78
    (line,) = done.stdout.splitlines()
    error = json.loads(line)
    assert error["exit_code"] == 78
    assert "it has no msgspec, and ours is not built for Python" in error["error"]
    assert "pip install 'msgspec>=0.21,<1' there" in error["error"]
    done = place.start("mission_tui.trainer")
    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr.startswith("mission-tui: run.python = ")


@pytest.mark.parametrize(
    ("name", "version", "said"),
    [
        ("torch", "2.1.0+cu118", "torch 2.1.0+cu118 is not among 2.10 <= version < 3; pip install 'torch==2.10.*'"),
        ("numpy", "3.0.0rc1", "numpy 3.0.0rc1 is not among 2 <= version < 3; pip install 'numpy<3'"),
    ],
)
def test_versions_on_either_side_of_the_range_are_told(name: str, version: str, said: str, tmp_path: Path) -> None:
    """Too old and too new, each with what would do."""
    place = Place(tmp_path, without=(name, "mission_tui"))
    package(place.packages, name)
    place.installed(name, version)
    done = place.start()
    assert done.returncode == 78
    assert said in done.stdout


def test_another_version_of_ours_is_refused_and_the_same_is_used(tmp_path: Path) -> None:
    """Both sides of a run are of one version; whoever has it installed uses that."""
    place = Place(tmp_path, without=())
    own = package(place.packages, "mission_tui", '__version__ = "0.0.1"\n') / "mission_tui"
    (own / "probe.py").write_text("print('own')\n", encoding="utf-8")
    done = place.start()
    assert done.returncode == 78
    assert f"it has mission-tui 0.0.1, and the one that launches is {VERSION}" in done.stdout
    (own / "__init__.py").write_text(f'__version__ = "{VERSION}"\n', encoding="utf-8")
    assert place.start().stdout == "own\n"


@pytest.mark.skipif(not older_pythons(), reason="no Python 3.8 to 3.10 here")
def test_a_python_that_is_too_old_says_so_and_nothing_else() -> None:
    """Its own packages are of versions that would be refused too; that helps nobody."""
    for python in older_pythons():
        words = [python, foreign_python.__file__, "mission_tui.trainer.checking.preflight"]
        done = subprocess.run(words, env={"PATH": os.defpath}, capture_output=True, text=True, timeout=30)
        assert done.returncode == 78, done.stderr
        said = json.loads(done.stdout)["error"]
        assert "and a trainer needs 3.11 or newer; or launch your own script after --" in said


def test_what_is_no_mission_tui_is_refused_by_name(tmp_path: Path) -> None:
    """A package of that name on the path is said with its place; one in the working folder is not looked at."""
    place = Place(tmp_path)
    package(tmp_path, "mission_tui", "raise SystemExit('of the working folder')")
    done = place.start()
    assert done.returncode == 0, done.stderr + done.stdout
    package(place.packages, "mission_tui", "raise SystemExit('of somebody else')")
    done = place.start()
    assert done.returncode == 78
    assert f"a mission_tui that is not ours at {place.packages / 'mission_tui'}" in json.loads(done.stdout)["error"]
