"""The report says the whole table of goals, whatever was measured, and calls a miss a miss."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.__main__ import BY_NAME, ORDER
from benchmarks.__main__ import main as everything
from benchmarks.goals import LINES, line_of
from benchmarks.report import ROOT, main, markdown
from benchmarks.results import MEASURED, Row, Sheet, Spread, digest, kept_sheets, read_sheets, write_sheet
from benchmarks.rows import best_of, bounded, compared, unmeasured, verdict_of

MACHINE = {"cores": "2", "torch": "2.13.0"}


def sheet(*rows: Row, elsewhere: float | None = 0.1) -> Sheet:
    """A sheet of which everything is known."""
    when = "2026-11-21T12:00:00+00:00"
    return Sheet("A title", "python -m benchmarks.stepping", rows, 0.5, when, MACHINE, elsewhere, 90.0, "abc", "code")


def stepping(goal: float, note: str = "") -> Row:
    """Three rounds of ours over SB3's, twice as fast by the median."""
    what = "raw stepping, 32 x CartPole-v1, 2 workers"
    return compared(what, "steps/s", [20.0, 10.0, 33.0], "SB3 SubprocVecEnv", [10.0, 10.0, 11.0], goal, note)


def verdict(text: str, words: str) -> str:
    """The last cell of the only table line that holds `words` after its first bar."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {words}")]
    return line.split("|")[-2].strip()


def test_with_no_sheets_every_line_says_how_to_measure_it(tmp_path: Path) -> None:
    """Missing folders and missing sheets are refused by nobody: each line names its command, or why there is none."""
    main(["--sheets", str(tmp_path / "none"), "--docs", str(tmp_path)])
    text = (tmp_path / "performance.md").read_text(encoding="utf-8")
    table = text.split("## The goals")[1]
    for line in LINES:
        assert f"| **{line.what}** |" in table
    assert table.count("not measured: ") == len(LINES)
    assert "run `make bench-stepping`" in table
    assert f"0 of {len(LINES)} goals are met, 0 missed" in text


def test_the_lines_stand_in_the_order_of_the_table() -> None:
    """Sheets come by name, rows by line."""
    text = markdown({"a": sheet(bounded("swarm, PPO", "steps/s", [1.0], at_least=2.0)), "b": sheet(stepping(1.0))})
    places = [text.index(f"| **{line.what}**") for line in LINES]
    assert places == sorted(places)
    assert text.index("| raw stepping, 32 x") < text.index("| swarm, PPO")


@pytest.mark.parametrize(("goal", "said"), [(1.0, "met"), (2.0, "too close to say"), (3.1, "**MISSED**")])
def test_where_the_median_of_the_ratios_can_lie_decides(goal: float, said: str) -> None:
    """Ratios are taken round by round: 2, 1 and 3 meet a goal of 1, miss one of 3.1, and cannot say of one of 2."""
    text = markdown({"stepping": sheet(stepping(goal))})
    assert verdict(text, "raw stepping, 32 x") == said
    assert "2.00 x (1.00 to 3.00)" in text


def test_a_miss_is_read_above_the_table_with_its_reason() -> None:
    """What was missed, by how much and what the floor is stands before any table, and once."""
    text = markdown({"stepping": sheet(stepping(12.0, "the floor is there"))})
    above = text.split("## The goals")[0]
    assert f"0 of {len(LINES)} goals are met, 1 missed in at least one row, 0 too close to say" in above
    assert "against SB3 SubprocVecEnv: 2.00 x, goal >= 12 x; the floor is there" in above
    assert text.count("the floor is there") == 1


def test_a_row_that_could_not_be_measured_says_why() -> None:
    """It counts neither as met nor as missed."""
    row = unmeasured("raw stepping, 64 x CartPole-v1", ">= 12 x", "no memory for it", "SB3 SubprocVecEnv")
    text = markdown({"stepping": sheet(row)})
    assert verdict(text, "raw stepping, 64 x") == "not measured: no memory for it"
    assert f"0 of {len(LINES)} goals are met, 0 missed" in text


def test_a_row_that_no_line_asks_for_is_not_lost() -> None:
    """It stands in a table of its own."""
    text = markdown({"x": sheet(bounded("something else", "s", [1.0, 2.0, 3.0], at_most=0.5))})
    after = text.split("## Also measured")[1]
    assert "| something else | 2 s (1 to 3) |" in after
    assert verdict(after, "something else") == "**MISSED**"


def test_machine_command_and_load_are_told() -> None:
    """A figure without them cannot be believed."""
    text = markdown({"stepping": sheet(stepping(1.0))})
    assert (
        "| A title | `python -m benchmarks.stepping` | abc | 2026-11-21 12:00:00 | 1.5 min | 0.10 | 0.5 | 1 |" in text
    )
    assert "Machine 1: cores 2, torch 2.13.0." in text


@pytest.mark.parametrize(("elsewhere", "warned"), [(None, False), (0.1, False), (1.4, True)])
def test_a_busy_machine_is_admitted_above_the_table(elsewhere: float | None, warned: bool) -> None:
    """Cores that others used before the benchmark began are a reason not to believe absolute figures."""
    above = markdown({"stepping": sheet(stepping(1.0), elsewhere=elsewhere)}).split("## The goals")[0]
    assert ("A title (1.4 cores)" in above) is warned


def test_sheets_are_read_as_they_were_written(tmp_path: Path) -> None:
    """By the names of their files."""
    written = sheet(stepping(2.0), unmeasured("x", "", "why"))
    write_sheet(written, tmp_path / "results" / "stepping.json")
    assert read_sheets(tmp_path / "results") == {"stepping": written}


def test_what_another_checkout_measured_is_kept(tmp_path: Path) -> None:
    """Whoever measures one thing anew has none of the other sheets but those in the docs."""
    one, other, anew = (sheet(stepping(goal)) for goal in (1.0, 1.5, 2.5))
    for checkout, name, measured in (("a", "stepping", one), ("a", "x", other), ("b", "x", anew)):
        write_sheet(measured, tmp_path / checkout / f"{name}.json")
    for checkout in "ab":
        main(["--sheets", str(tmp_path / checkout), "--docs", str(tmp_path)])
    assert kept_sheets(tmp_path / "performance.json") == {"stepping": one, "x": anew}
    assert (tmp_path / "performance.md").read_text(encoding="utf-8") == markdown({"stepping": one, "x": anew})


@pytest.mark.parametrize(
    ("what", "against", "expected"),
    [
        ("four heavy runs at once", "four SB3 + Subproc", "four `heavy` runs"),
        ("four heavy at once on a GPU", "one alone", "on a GPU: four `heavy`"),
        ("PPO, 16 x CartPole-v1 x 128, minibatch 512", "sbx (JAX)", "PPO, 16 x CartPole"),
        ("PPO, 2,048 batched CartPole-v1 x 128", "SB3 PPO", "PPO, 256-2,048"),
        ("launch -> first env step, cold", "", "launch → first env step"),
        ("supervised against alone", "itself", "supervised"),
    ],
)
def test_rows_find_their_line(what: str, against: str, expected: str) -> None:
    """By the words of what was measured on, and against whom."""
    line = line_of(Row(what, "", Spread(1, 1, 1), "", None, against))
    assert line is not None
    assert line.what.startswith(expected)


def test_the_best_peer_is_chosen_in_each_round() -> None:
    """A round that was bad for one peer does not lower what ours is compared with."""
    assert best_of([1.0, 5.0], [4.0, 2.0]) == [4.0, 5.0]


def test_a_goal_of_several_rows_is_met_when_all_of_them_are() -> None:
    """Seven rows that are met and one that is missed are one goal, and it is missed."""
    text = markdown({"stepping": sheet(*[stepping(1.0)] * 7, stepping(12.0))})
    assert f"0 of {len(LINES)} goals are met, 1 missed" in text
    assert f"1 of {len(LINES)} goals are met, 0 missed" in markdown({"stepping": sheet(*[stepping(1.0)] * 7)})


@pytest.mark.parametrize(("rounds", "least", "most"), [(1, 0, 0), (4, 0, 3), (5, 0, 4), (9, 1, 7), (20, 5, 14)])
def test_the_median_lies_within_its_interval_by_signs(rounds: int, least: int, most: int) -> None:
    """Of nine rounds the second and the eighth bound it at 93 %; of four nothing does, so all are told."""
    spread = Spread.of([float(value) for value in range(rounds)])
    assert (spread.rounds, spread.least, spread.most) == (rounds, least, most)


def test_many_rounds_decide_what_few_cannot() -> None:
    """One round in twenty on the other side of a goal is noise."""
    rates = [2.0] * 19 + [0.5]
    assert verdict_of(compared("x", "steps/s", rates, "y", [1.0] * 20, 1.5)) == "met"
    assert verdict_of(compared("x", "steps/s", rates[-4:], "y", [1.0] * 4, 1.5)) == "too close to say"


def test_the_page_is_of_its_sheets() -> None:
    """`python -m benchmarks.report` writes it anew, and nothing need be measured for that."""
    sheets = kept_sheets(ROOT / "docs" / "performance.json")
    said = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert said == markdown(sheets), "python -m benchmarks.report"


def test_the_report_says_which_sheets_are_older_than_the_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page does not: each change of the code would make it say something false."""
    write_sheet(replace(sheet(), code=digest(MEASURED["ppo"])), tmp_path / "sheets" / "ppo.json")
    words = ["--sheets", str(tmp_path / "sheets"), "--docs", str(tmp_path / "docs")]
    main(words)
    assert "older than the code" not in capsys.readouterr().out
    write_sheet(replace(sheet(), code="of before"), tmp_path / "sheets" / "ppo.json")
    main(words)
    assert "older than the code that they measure, or from before that was kept: A title" in capsys.readouterr().out


def test_benchmarks_go_on_where_they_were_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A part measures what has no sheet of this code; one that fails keeps none of the others waiting."""
    write_sheet(replace(sheet(), code=digest(MEASURED["ppo"])), tmp_path / "ppo.json")
    write_sheet(replace(sheet(), code="of another day"), tmp_path / "screen.json")
    begun: list[str] = []

    def measure(name: str, file: Path) -> int:
        begun.append(name)
        if name == "mission":
            return 1
        write_sheet(sheet(), file)
        return 0

    words = ["--sheets", str(tmp_path), "ppo", "screen", "mission", "startup"]
    assert everything([*words, "--seconds", "0"], measure) == 0
    assert begun == []
    assert "not begun: screen, mission, startup; the same command goes on there" in capsys.readouterr().out
    assert everything(words, measure) == 1
    assert begun == ["screen", "mission", "startup"]
    said = capsys.readouterr()
    assert "measured already, of this code: ppo" in said.out
    assert "failed, see above: mission" in said.err


def test_a_benchmark_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is measured, and the names are said."""
    with pytest.raises(SystemExit):
        everything(["pppo"])
    assert "there is no benchmark 'pppo'; there are judging, mission" in capsys.readouterr().err


def test_every_benchmark_of_the_list_can_be_started() -> None:
    """A name that is no program would be found out after hours."""
    for name in ORDER + BY_NAME:
        assert find_spec(f"benchmarks.{name}") is not None, name
        assert name in MEASURED, name
