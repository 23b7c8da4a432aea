"""The files of a report: whatever a metric or a name says is text to a spreadsheet, a Markdown page and a picture."""

from __future__ import annotations

import csv
from pathlib import Path
from xml.etree import ElementTree

from msgspec import structs
from msgspec.structs import replace

from mission_tui.cli.tables.comparison import comparison_tables, write_report
from mission_tui.fleet.comparison import compare
from mission_tui.fleet.comparison_sides import trace_of
from mission_tui.fleet.events.metrics import RETURN, MetricRecord
from tests.fleet.recorded import update
from tests.fleet.test_compare import side, spec_of

HOSTILE = '=HYPERLINK("http://x")|<b>&\x1b[31m`*_/y'


def test_curves_have_seed_and_settings(tmp_path: Path) -> None:
    """A run's own; of a band of seeds the settings that all of its runs have, and no seed."""
    rows: list[MetricRecord] = [update(n, ret=float(n)) for n in (1, 2, 3)]
    sides = [side(f"g{gamma}-s{seed}", rows, spec_of(seed, gamma=gamma)) for gamma in (0.9, 0.99) for seed in (1, 2)]
    grouped = [replace(it, view=structs.replace(it.view, group="lr", setting=it.view.name[:5])) for it in sides]
    write_report(tmp_path, compare(grouped, RETURN))
    with (tmp_path / "curves.csv").open(encoding="utf-8", newline="") as file:
        cells = list(csv.DictReader(file))
    assert list(cells[0])[:1] + list(cells[0])[3:] == ["curve", "least", "greatest", "seed", "ppo.gamma"]
    found = {(row["curve"], row["seed"], row["ppo.gamma"]) for row in cells}
    assert {("g0.9-s1", "1", "0.9"), ("g0.99-s2", "2", "0.99")} <= found
    assert {(seed, gamma) for _, seed, gamma in found if not seed} == {("", "0.9"), ("", "0.99")}


def test_the_greatest_loss_is_not_called_the_best() -> None:
    """Of a metric of which more is not better the tables say `greatest`; of returns `best`."""
    for metric, word in ((RETURN, "best"), ("train/value_loss", "greatest")):
        records: list[MetricRecord] = [update(n, ret=1.0 * n, value_loss=2.0 / n) for n in (1, 2)]
        sides = [
            side(f"{gamma}-{seed}", records, spec_of(seed, gamma=gamma), metric=metric)
            for gamma in (0.9, 0.99)
            for seed in (1, 2, 3)
        ]
        (_, results), (_, groups), *_ = comparison_tables(compare(sides, metric))
        assert results.columns[6] == word
        assert word in {cells[1] for cells in groups.rows}


def test_hostile_words_are_text_in_every_file(tmp_path: Path) -> None:
    """No formula, no markup, no cell more than there are columns, no character that XML cannot have."""
    rows: list[MetricRecord] = [structs.replace(update(n), metrics={HOSTILE: float(n)}) for n in (1, 2, 3)]
    trace = trace_of(rows, HOSTILE)
    sides = [replace(side(name, rows, spec_of(seed)), trace=trace) for seed, name in enumerate(("=1+1|x", "<script>"))]
    write_report(tmp_path, compare(sides, HOSTILE))
    with (tmp_path / "comparison.csv").open(encoding="utf-8", newline="") as file:
        assert [row["name"] for row in csv.DictReader(file)] == ["'=1+1|x", "<script>"]
    with (tmp_path / "curves.csv").open(encoding="utf-8", newline="") as file:
        heads, *cells = csv.reader(file)
    assert heads[2].startswith("'=HYPERLINK")
    assert {len(row) for row in cells} == {len(heads)}
    root = ElementTree.parse(tmp_path / "comparison.svg").getroot()
    assert root.findall(".//{http://www.w3.org/2000/svg}b") == []
    page = (tmp_path / "comparison.md").read_text(encoding="utf-8")
    assert "\x1b" not in page
    assert "<" not in page.replace("\\<", "")
    tables = [line for line in page.splitlines() if line.startswith("| ")]
    assert {line.replace("\\|", "").count("|") for line in tables if "1+1" in line or line.startswith("|  | run")} == {
        14
    }
