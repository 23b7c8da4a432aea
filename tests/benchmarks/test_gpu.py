"""`make gpu` where there is no card: the plan, and every item's code on a CPU, so that the first card finds no typo."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks.fleet.lab import until
from benchmarks.gpu import __main__ as campaign
from benchmarks.gpu.items import ITEMS, PARTS, Bench, Item
from benchmarks.gpu.items import main as items_main
from benchmarks.gpu.page import page
from benchmarks.results import Row, Sheet, Spread, kept_sheets, write_sheet
from tests.nvml import ONE, build, needs_gcc
from tests.trainer.forked import forked

DOCS = Path(__file__).resolve().parents[2] / "docs"
REFUSED_ON_A_CPU = {
    "a CPU's memory is not filled for a trial",
    "the driver tells no process's share",
}

DEAR = (
    *("fast.beast", "fast.images", "fast.small_nets", "fast.update"),
    *("right.export", "right.modes", "right.numbers", "right.others", "seen.mps", "seen.runs"),
)
"""Up to a minute each: `make gpu-rehearsal` runs these as well, before a card is borrowed."""
STARTED_ANEW = "broken.hidden"
"""This one is a process as the campaign starts it; the others are forks of the test, which loads torch once for all."""


def test_without_a_card_it_says_what_it_would_measure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every item by its name, why nothing was measured in one sentence, success, and nothing written."""
    monkeypatch.setattr(campaign, "no_card", lambda: "torch 2.13.0 sees no CUDA device here, so nothing was measured")
    assert campaign.main(["--folder", str(tmp_path / "none")]) == 0
    said = capsys.readouterr().out
    assert all(item.what in said for item in ITEMS)
    assert said.endswith("\ntorch 2.13.0 sees no CUDA device here, so nothing was measured.\n")
    assert not (tmp_path / "none").exists()


def test_each_item_is_a_function_of_its_part() -> None:
    """Names are unique, and none takes longer than a part may."""
    assert len({item.full_name for item in ITEMS}) == len(ITEMS)
    for item in ITEMS:
        assert item.part in PARTS
        source = campaign.ROOT / "benchmarks" / "gpu" / f"{item.part}.py"
        assert f"\ndef {item.name}(bench: Bench) -> list[Row]:" in source.read_text(encoding="utf-8")
        assert item.most_s <= 240


def test_it_goes_on_where_it_was_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What has a sheet is not measured again, what finds too little time is left, and both are said."""
    begun: list[str] = []

    def carry_out(item: Item, bench: Bench, file: Path, within_s: float) -> str:
        assert (bench, within_s <= 60) == (Bench("cpu", small=True), True)
        begun.append(item.full_name)
        write_sheet(Sheet(item.full_name, "", (Row(item.what, "s", None, "", None),)), file)
        return "done"

    monkeypatch.setattr(campaign, "carry_out", carry_out)
    words = ["--device", "cpu", "--small", "--folder", str(tmp_path), "--seconds", "60"]
    assert campaign.main([*words, "--parts", "broken.kill"]) == 0
    assert campaign.main([*words, "--parts", "broken"]) == 0
    assert begun == [item.full_name for item in ITEMS if item.part == "broken"]
    assert campaign.main([*words[:-1], "1", "--parts", "seen"]) == 0
    assert "left: seen.load, seen.runs, seen.mps; the same command goes on" in capsys.readouterr().out


def test_the_page_is_that_of_the_kept_sheets() -> None:
    """`docs/gpu.md` says what stands beside it in JSON; without sheets, that nothing was measured."""
    assert (DOCS / "gpu.md").read_text(encoding="utf-8") == page(kept_sheets(DOCS / "gpu.json"))
    assert "Nothing was measured yet" in page({})
    assert "none of these figures is of a card" in page({}, "cpu")


def test_sheets_of_several_days_are_one_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a campaign leaves is put with what is kept beside the page, and replaces it item by item."""
    monkeypatch.setattr(campaign, "no_card", lambda: "no card here")
    written = tmp_path / "gpu.md"
    for number, names in enumerate((("seen.load", "seen.mps"), ("seen.mps", "broken.kill"))):
        folder = tmp_path / str(number)
        for name in names:
            row = Row(f"{name} {number}", "s", Spread.of([1.0]), "", None)
            write_sheet(Sheet(name, "", (row,)), folder / f"{name}.json")
        assert campaign.main(["--report", "--folder", str(folder), "--page", str(written)]) == 0
    missing = ["--missing", "--plan", "--page", str(written), "--parts", "seen,broken.kill"]
    assert campaign.main([*missing, "--folder", str(tmp_path / "none")]) == 0
    planned = capsys.readouterr().out
    assert ("  runs " in planned, "  mps " in planned, "  kill " in planned) == (True, False, False)
    text = written.read_text()
    assert [f"| {row} |" in text for row in ("seen.load 0", "seen.mps 1", "broken.kill 1", "seen.mps 0")] == [
        *[True] * 3,
        False,
    ]


def test_the_claims_stand_beside_what_was_measured() -> None:
    """How busy each preset kept the card, alone and four at once; what was not measured is called so."""
    notes = ["busy fast: 11 %", "four fast: 40 %"], ["split: 80 % of the time in updates", "busy heavy: 21 %"]
    sheets = {
        name: Sheet(name, "", tuple(Row(note, "%", None, "", None, note=note) for note in said))
        for name, said in zip(("fast.fast", "fast.heavy"), notes, strict=True)
    }
    written = page(sheets)
    assert "| 001 | busy fast: 11 %, busy heavy: 21 % |" in written
    assert "| 001 | four fast: 40 % |" in written
    assert "| 001 | split: 80 % of the time in updates |" in written
    assert "not measured |" in page({})


@pytest.mark.timeout(240)
def test_a_campaign_that_is_ended_ends_what_it_measures(tmp_path: Path) -> None:
    """By SIGTERM, as `timeout` sends it: an item would go on beside what is measured next."""
    words = [sys.executable, "-m", "benchmarks.gpu", "--device", "cpu", "--small", "--parts", "broken.visible"]
    process = subprocess.Popen([*words, "--folder", str(tmp_path)], cwd=campaign.ROOT, start_new_session=True)
    items = until(lambda: psutil.Process(process.pid).children(), 90.0, "an item is begun")
    process.terminate()
    assert process.wait(90) == 128 + 15
    assert not any(item.is_running() and item.status() != psutil.STATUS_ZOMBIE for item in items)


def test_a_campaign_that_is_ended_while_it_begins_an_item_ends_that_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal comes between the fork and the moment at which the campaign knows what it has begun."""
    begun = []

    class EndedMeanwhile(subprocess.Popen[bytes]):
        def __init__(self, *words: Any, **how: Any) -> None:
            super().__init__(["sleep", "60"], start_new_session=True)
            begun.append(psutil.Process(self.pid))
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(subprocess, "Popen", EndedMeanwhile)
    ends = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with pytest.raises(SystemExit):
            campaign.carry_out(ITEMS[0], Bench("cpu", small=True), tmp_path / "sheet.json", 60.0)
    finally:
        signal.signal(signal.SIGTERM, ends)
    assert not begun[0].is_running()


@pytest.fixture(scope="module")
def loaded() -> None:
    """What items are carried out with, torch above all, so that their forks have it."""
    for part in PARTS:
        importlib.import_module(f"benchmarks.gpu.{part}")


@pytest.mark.slow
@pytest.mark.process
@needs_gcc
@pytest.mark.timeout(240)
@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize("item", [pytest.param(item, id=item.full_name) for item in ITEMS])
def test_every_items_code_runs_on_a_cpu(item: Item, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With tiny nets, a stand-in for NVML and one for MPS: rows come, and none says that something went wrong."""
    if item.full_name in ("fast.fast", "fast.heavy"):
        pytest.skip("the code of fast.beast and fast.swarm")
    if item.full_name in DEAR and "GPU_REHEARSAL" not in os.environ:
        pytest.skip("`make gpu-rehearsal` runs it")
    (tmp_path / "nvml").mkdir()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(build(tmp_path / "nvml")))
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "machine"))
    (tmp_path / "machine").write_text(ONE)
    control = tmp_path / "bin" / "nvidia-cuda-mps-control"
    control.parent.mkdir()
    control.write_text("#!/bin/sh\nexit 0\n")
    control.chmod(0o755)
    monkeypatch.setenv("PATH", f"{control.parent}:{os.environ['PATH']}")
    if item.full_name in ("fast.swarm", "fast.at_once"):  # three trainings or more
        monkeypatch.setenv("MISSION_TUI_PRELOAD", "always")
    sheet = tmp_path / "sheet.json"
    bench = Bench("cpu", small=True)
    if item.full_name == STARTED_ANEW:
        how = campaign.carry_out(item, bench, sheet, 230)
    else:
        words = [item.full_name, "--device", bench.device, "--train-seconds", str(bench.train_s), "--small"]
        _, _, how = forked(items_main, [*words, "--json", str(sheet)])
    assert sheet.exists(), how
    rows = json.loads(sheet.read_text())["rows"]
    assert rows
    for row in rows:
        if row["ours"] is None:
            assert row["note"].removeprefix("not measured: ") in REFUSED_ON_A_CPU, row
