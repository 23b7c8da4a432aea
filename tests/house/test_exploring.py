"""`make explore` finds what fixed examples miss, keeps it, and says it so that it can be written into the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.exploring import example_of, explore

pytestmark = pytest.mark.timeout(180)

PROFILE = """
from hypothesis import settings
from hypothesis.database import DirectoryBasedExampleDatabase
settings.register_profile("explore", deadline=None, database=DirectoryBasedExampleDatabase("kept"))
"""
PROPERTIES = """
from hypothesis import given, settings, strategies as st

@settings(max_examples=5)
@given(st.integers(0, 9), st.lists(st.integers()))
def test_holds(number, numbers):
    pass

@settings(max_examples=5)
@given(st.integers(0, 10**6), st.lists(st.sampled_from("abc"), min_size=2))
def test_fails(number, words):
    assert number < 1000
"""


@pytest.mark.slow
def test_what_fails_is_kept_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds with more examples than the tests ask for; the failure is an example to write down, and is tried first."""
    monkeypatch.setattr("tests.exploring.FIRST_ROUND_S", 0.2)
    # Each visit is a process, which would load what our own tests need: Textual for one.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p _hypothesis_pytestplugin")
    (tmp_path / "conftest.py").write_text(PROFILE)
    (tmp_path / "test_p.py").write_text(PROPERTIES)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    said: list[str] = []
    tests = ["test_p.py::test_holds", "test_p.py::test_fails"]
    holds, fails = explore(tests, 600.0, said.append, tmp_path, rounds=2)
    assert (holds.failed, holds.examples) == ("", [])
    assert holds.visits == 2
    assert holds.ran > 10
    assert fails.examples == ["@example(number=1000, words=['a', 'a'])"]
    assert any(line.startswith("FAILED") and line.endswith("test_fails") for line in said)
    (again,) = explore(tests[1:], 600.0, said.append, tmp_path, rounds=1)
    assert again.examples == fails.examples
    assert again.ran < 20


def test_an_example_over_several_lines_becomes_one() -> None:
    """With Hypothesis' remarks left out; the same one is said once."""
    shown = (
        "E       Failing test case: test_x(\n"
        "E           # The test always failed when commented parts were varied together.\n"
        "E           done=[Deed(\n"
        "E                'pause',\n"
        "E                5.0,  # or any other generated value\n"
        "E            ), Deed('wait')],\n"
        "E           seed=0,  # or any other generated value\n"
        "E       )\n"
    )
    assert example_of(shown * 2) == ["@example(done=[Deed( 'pause', 5.0, ), Deed('wait')], seed=0)"]
    assert example_of("1 failed\n") == []
