"""The campaign's own machinery: no round is lost or done twice over a kill, and the report says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.faults.campaign.part import Part, Tell, Violation
from tests.faults.campaign.progress import load_progress, rounds_of
from tests.faults.campaign.report import write_report


class Killed(BaseException):
    """The campaign ends in the middle of a round."""


def count_to(last: int, found: str = "") -> Part:
    def run(rounds: Iterable[int], seed: int, tell: Tell) -> Iterator[Violation]:
        for index in rounds:
            tell("rounds seen", 1)
            if index == last:
                raise Killed
            if found:
                yield f"{found} {index}"

    return Part("counting", ("D5",), 5, run)


def test_a_killed_part_goes_on_with_the_round_it_was_in(tmp_path: Path) -> None:
    """What was done stays done, the unfinished round is done again, and figures count each round once."""
    part = count_to(3)
    progress = load_progress(tmp_path, part, 1, 5)
    with pytest.raises(Killed):
        list(part.run(rounds_of(progress, tmp_path, 60), 1, progress.tell))
    progress.save(tmp_path)
    again = load_progress(tmp_path, part, 1, 5)
    assert (again.done, again.figures) == (3, {"rounds seen": 3})
    list(count_to(-1).run(rounds_of(again, tmp_path, 60), 1, again.tell))
    assert (again.done, again.figures) == (5, {"rounds seen": 5})


def test_another_seed_begins_anew(tmp_path: Path) -> None:
    """State belongs to a seed and a number of rounds."""
    part = count_to(-1)
    progress = load_progress(tmp_path, part, 1, 5)
    list(part.run(rounds_of(progress, tmp_path, 60), 1, progress.tell))
    progress.save(tmp_path)
    assert load_progress(tmp_path, part, 1, 5).done == 5
    assert load_progress(tmp_path, part, 2, 5).done == 0
    assert load_progress(tmp_path, part, 1, 6).done == 0


def test_a_row_names_the_commits_that_its_rounds_were_of(tmp_path: Path) -> None:
    """One commit; or the first and the last, where a campaign went on after a change."""
    part = count_to(-1)
    progress = load_progress(tmp_path, part, 1, 5)
    progress.measured_at("aaaa")
    assert progress.commit == "aaaa"
    progress.done = 2
    progress.measured_at("aaaa")
    assert progress.commit == "aaaa"
    progress.measured_at("bbbb")
    progress.measured_at("cccc")
    assert progress.commit == "aaaa..cccc"
    document = tmp_path / "faults.md"
    document.write_text("<!-- figures -->\n<!-- /figures -->\n")
    write_report([progress], tmp_path, document)
    assert "| aaaa..cccc |\n" in document.read_text()


def test_a_part_stops_when_its_time_is_over(tmp_path: Path) -> None:
    """No round begins after the time that was given."""
    progress = load_progress(tmp_path, count_to(-1), 1, 5)
    assert list(rounds_of(progress, tmp_path, 0.0)) == []


def test_the_report_fills_the_table_between_its_marks(tmp_path: Path) -> None:
    """Figures are replaced; the rest of the document stays, and figures of parts that were run elsewhere."""
    part = count_to(-1, found="a violation in round")
    progress = load_progress(tmp_path, part, 1, 5)
    progress.violations += part.run(rounds_of(progress, tmp_path, 60), 1, progress.tell)
    document = tmp_path / "faults.md"
    elsewhere = "| names | 5,000 | 5,000 | 0 | 0 | 286 taken | `make faults ONLY=names SEED=1` | 2026-11-21 |\n"
    old = elsewhere + elsewhere.replace("names", "counting").replace("286 taken", "old")
    document.write_text(f"before\n<!-- figures -->\n{old}<!-- /figures -->\nafter\n")
    write_report([progress], tmp_path, document)
    text = document.read_text()
    assert text.startswith("before\n<!-- figures -->\n| part |")
    assert text.endswith("|\n<!-- /figures -->\nafter\n")
    assert "| counting | 5 | 5 | 5 | 0 | 5 rounds seen |" in text
    assert "old" not in text
    assert elsewhere in text
