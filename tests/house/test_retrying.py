"""A retry of `make test` hides nothing: it happens where chance is likely, and what needed it is kept."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import structs

from tests.retrying import FLAKY, HISTORY, Session, parts_of, why_not

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(180)

PASSES = "def test_passes():\n    pass\n"
FAILS = "def test_fails():\n    raise AssertionError\n"
CHANCE = """
from pathlib import Path
def test_by_chance():
    mark = Path(__file__).with_name("mark")
    known = mark.exists()
    mark.touch()
    assert known
"""


def test_parts_that_need_an_engine_say_whether_they_ran() -> None:
    """A cluster that could not be installed is seen in a line, not in the middle of thousands."""
    slurm = [f"tests/slurm/test_runs.py::test_{number}" for number in range(4)]
    session = Session(collected=[*slurm, "tests/ray/test_runs.py::test_it"], failed=slurm[:1], skipped=slurm[2:])
    assert parts_of(session) == [
        "Slurm: 2 of 4 tests ran, 1 failed, 2 skipped",
        "Ray: 1 of 1 tests ran, 0 failed, 0 skipped",
    ]


class Checkout:
    """A small project that has our two phases."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "pytest.ini").write_text(
            "[pytest]\nmarkers =\n  property: draws its examples\n  simulated: starts nothing\n"
        )
        self.said = ""

    def write(self, name: str, text: str) -> None:
        path = self.folder / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def make_test(self, *words: str) -> int:
        """Both phases, as the Makefile has them; the exit status."""
        plugin = ("-p", "tests.retrying", "--import-mode=importlib")
        self._run("-m", "pytest", *plugin, *words)
        return self._run("-m", "tests.retrying", *plugin)

    def _run(self, *words: str) -> int:
        environ = os.environ | {"PYTHONPATH": str(ROOT)}
        environ.pop("TEST_HISTORY", None)
        environ["PYTEST_ADDOPTS"] = "-p xdist"
        environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        command = [sys.executable, "-P", *words]
        done = subprocess.run(command, cwd=self.folder, env=environ, capture_output=True, text=True)
        self.said += done.stdout + done.stderr
        return done.returncode

    @property
    def kept(self) -> list[str]:
        """The tests of the kept list."""
        path = self.folder / FLAKY
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A project with one test that passes and one that fails the first time."""
    made = Checkout(tmp_path)
    made.write("supervisor/test_a.py", PASSES)
    made.write("supervisor/test_b.py", CHANCE)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("-n", "2")], ids=["alone", "workers"])
def test_a_failure_by_chance_is_tried_again_and_kept(checkout: Checkout, words: tuple[str, ...]) -> None:
    """It passes alone, the whole passes, and the list names it."""
    assert checkout.make_test(*words) == 0, checkout.said
    assert checkout.kept == ["tests/supervisor/test_b.py::test_by_chance"]
    assert "passed only alone" in checkout.said


@pytest.mark.slow
def test_a_second_time_in_ten_sessions_is_a_failure(checkout: Checkout) -> None:
    """A test that needs its retry again and again is one that has to be mended; after nine good sessions it is not."""
    mark = checkout.folder / "tests" / "supervisor" / "mark"
    assert checkout.make_test() == 0, checkout.said
    assert checkout.make_test() == 0, checkout.said
    assert checkout.kept == []
    mark.unlink()
    assert checkout.make_test() == 1
    assert "a second time in 10 sessions is no chance" in checkout.said
    history = checkout.folder / HISTORY
    good = history.read_text().splitlines()[-1]
    history.write_text(history.read_text() + f"{good}\n" * 8)
    mark.unlink(missing_ok=True)
    assert checkout.make_test() == 0, checkout.said
    assert len(history.read_text().splitlines()) == 10


@pytest.mark.slow
def test_what_fails_alone_as_well_has_failed(checkout: Checkout) -> None:
    """Nothing is kept, since nothing passed."""
    checkout.write("supervisor/test_c.py", FAILS)
    assert checkout.make_test() == 1
    assert checkout.kept == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("supervisor/test_c.py", "import nothing_such\n", "not every test was collected"),
        ("fleet/test_c.py", CHANCE, "what starts and waits for nothing"),
        ("present/test_c.py", CHANCE, "what starts and waits for nothing"),
        ("tui/test_c.py", "import pytest\ndef test_x(): pytest.exit('stop')\n", "pytest ended with 2"),
    ],
    ids=["collection", "pure-room", "another-pure-room", "ended"],
)
def test_a_session_that_proves_little_is_not_tried_again(checkout: Checkout, name: str, text: str, why: str) -> None:
    """Although what failed would pass: the whole fails, says why, and keeps nothing."""
    checkout.write(name, text)
    assert checkout.make_test() != 0
    assert why in checkout.said
    assert "tried again, alone" not in checkout.said
    assert checkout.kept == []


@pytest.mark.slow
def test_what_repeats_itself_is_not_tried_again(checkout: Checkout) -> None:
    """It has the same examples, or the same machine, and would fail again; the worker that ran it says what it is."""
    for mark in ("property", "simulated"):
        text = CHANCE.replace('"mark"', f'"{mark}"')
        checkout.write(f"tui/test_{mark}.py", f"import pytest\npytestmark = pytest.mark.{mark}\n{text}")
    assert checkout.make_test("-n", "2") == 1
    (said,) = re.findall("does not fail by chance: (.*)", checkout.said)
    assert set(said.split(", ")) == {f"tests/tui/test_{it}.py::test_by_chance" for it in ("property", "simulated")}


FAILED = Session(collected=["a", "b"], ran=["a", "b"], failed=["b"])


@pytest.mark.parametrize(
    ("session", "why"),
    [
        (FAILED, ""),
        (None, "pytest did not come to its end"),
        (structs.replace(FAILED, broken=["tests/test_x.py"]), "not every test was collected, or run: tests/test_x.py"),
        (structs.replace(FAILED, ran=["b"]), "1 of 2 tests did not run, a among them"),
        (structs.replace(FAILED, failed=[]), ""),
        (structs.replace(FAILED, certain=["b"]), "what starts and waits for nothing does not fail by chance: b"),
        (structs.replace(FAILED, failed=[*"abcde"]), ""),
        (structs.replace(FAILED, failed=[*"abcdef"]), "6 tests failed; more than 5 are no chance"),
    ],
)
def test_what_a_session_must_be_to_be_tried_again(session: Session | None, why: str) -> None:
    """Whole, with few failures, none of them in a test that waits for nobody."""
    assert why_not(session) == why
