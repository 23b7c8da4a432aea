"""The count of what `try` says: a wrong word and a trial that could not begin are counted as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.trials import CASES, FAILED, _cli, row_of, tried

NOTHING = CASES[0]


@pytest.mark.parametrize(
    ("said", "met"),
    [
        (["no difference"] * 19 + ["too noisy"], True),
        (["no difference"] * 18 + ["helps", FAILED], False),
    ],
)
def test_a_wrong_verdict_is_counted(said: list[str], met: bool) -> None:
    """One of twenty may say something else of settings that change nothing; a failed trial counts as wrong."""
    row = row_of(NOTHING, [{"says": word, "sentence": ""} for word in said])
    assert row.met is met
    assert row.note.count("1 said") == len(set(said)) - 1


def test_a_trial_that_cannot_begin_says_its_last_words(tmp_path: Path) -> None:
    """The real verb where there is no run: no exception, its sentence."""
    try:
        answer = tried(tmp_path, "nobody", NOTHING, 0, "4u")
    finally:
        _cli(tmp_path, "supervisor", "stop")
    assert answer["says"] == FAILED
    assert "nobody" in answer["sentence"]
