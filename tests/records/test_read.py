"""`mission_tui.read`: runs as data for notebooks, from the files alone."""

from __future__ import annotations

import inspect
import json
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

import mission_tui.read as mt
from mission_tui.cli.verbs.run_output import write_parquet
from mission_tui.errors import DamagedError, UsageError
from mission_tui.fleet.comparison_sides import trace_of
from mission_tui.fleet.events.metrics import EvaluationDone, MetricRecord, TrainingStarted, UpdateDone
from mission_tui.records import jsonl
from mission_tui.records.jsonl import AppendLog, encode_line, read_all
from mission_tui.records.runs.comparison_sides import compare_runs, read_sides
from mission_tui.records.runs.layout import RunDir


def row(seq: int, attempt: int, update: int) -> UpdateDone:
    return UpdateDone(seq, attempt, update, 64 * update, float(seq), 0.5, 0.5, 64.0)


ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "fixtures" / "fleet-0.1.0" / "runs"


def test_a_group_is_read_with_its_settings_and_updates() -> None:
    """Names, seeds, outcomes and settings of each run; its updates with every metric as a number."""
    sweep = mt.runs(RECORDED, group="sweep")
    assert [(run.name, run.seed, run.outcome) for run in sweep] == [
        ("tiny-1b35", 1, "finished"),
        ("tiny-20c6", 1, "finished"),
        ("second", 2, "finished"),
        ("tiny-f1f5", 2, "finished"),
    ]
    assert [run.settings["ppo.learning_rate"] for run in sweep] == [0.001, 0.003, 0.003, 0.001]
    last = sweep[0].updates()[-1]
    assert (last["update"], last["timesteps"], last["rollout/ep_rew_mean"]) == (20, 5120, 28.27)
    assert {run.group for run in mt.runs(RECORDED)} == {"sweep", None}


def test_a_comparison_takes_little_memory_for_a_long_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compared is what all rows say, also those that a resume took back, of which few are held at once."""
    monkeypatch.setattr(jsonl, "SLICE_BYTES", 1 << 14)
    tags = ("rollout/ep_rew_mean", "train/approx_kl")
    shutil.copytree(next(RECORDED.glob("*-wild-*")), tmp_path / "20260101-000000-long-abcd")
    run = RunDir(tmp_path / "20260101-000000-long-abcd")
    records = read_all(run.metrics, MetricRecord)[0]
    last = next(it for it in reversed(records) if isinstance(it, UpdateDone))
    wide = dict(last.metrics) | {f"train/metric_{number}": number * 1.5 for number in range(40)}
    more: list[MetricRecord] = [
        structs.replace(last, seq=9000 + at, update=last.update + at, timesteps=last.timesteps + at, metrics=wide)
        for at in range(1, 500)
    ]
    again = TrainingStarted(20_000, 2, 0.0, from_update=last.update + 300, from_timesteps=last.timesteps + 300)
    after = structs.replace(last, seq=20_001, attempt=2, update=last.update + 301, timesteps=last.timesteps + 301)
    records = [*(it for it in records if it.seq <= last.seq), *more, again, after]
    run.metrics.write_bytes(b"".join(map(encode_line, records)))
    tracemalloc.start()
    try:
        sides = read_sides([run.path], print, tags)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [sides[tag][0].trace for tag in tags] == [trace_of(records, tag) for tag in tags]
    assert peak < 2 * run.metrics.stat().st_size


def test_columns_are_equally_long_and_say_what_differs() -> None:
    """What differs has a column, what does not has none; a value that is not there is None."""
    found = mt.columns(mt.runs(RECORDED, group="sweep"))
    assert list(found)[:6] == ["run", "name", "group", "seed", "ppo.learning_rate", "update"]
    assert {len(column) for column in found.values()} == {80}
    assert set(zip(found["seed"], found["ppo.learning_rate"], strict=True)) == {
        (1, 0.001),
        (1, 0.003),
        (2, 0.001),
        (2, 0.003),
    }
    two = [run for run in mt.runs(RECORDED) if run.name in ("wild", "second")]
    wild, second = structs.replace(two[0], settings={"ppo.net_arch": (64, 64)}), structs.replace(two[1], settings={})
    assert set(mt.columns([wild, second])["ppo.net_arch"]) == {"64-64", None}
    assert mt.columns([])["run"] == []


def test_a_column_has_one_type() -> None:
    """Numbers stay numbers; a number beside a schedule is text, and what is not there is None."""
    first, second, third = mt.runs(RECORDED, group="sweep")[:3]
    rates = {"lr": 1e-3, "sizes": 64, "share": 1, "layers": [64, 64], "only": 3}, {"lr": "lin_1e-3", "share": 0.5}
    made = [structs.replace(first, settings=rates[0]), structs.replace(second, settings=rates[1])]
    made.append(structs.replace(third, settings={"lr": {"from": 1.0}, "sizes": "64-64", "layers": "64", "only": 4}))
    found = mt.columns(made)
    kinds = {head: {type(value) for value in column} - {type(None)} for head, column in found.items()}
    assert {head: kind for head, kind in kinds.items() if len(kind) > 1} == {}
    assert set(found["lr"]) == {"0.001", "lin_1e-3", "{'from': 1.0}"}
    assert (set(found["share"]), kinds["share"]) == ({1.0, 0.5, None}, {float})
    assert (set(found["only"]), kinds["only"]) == ({3, 4, None}, {int})
    assert set(found["layers"]) == {"64-64", "64", None}


def test_an_evaluation_is_in_the_row_of_its_update(tmp_path: Path) -> None:
    """Also where a later attempt did the update again; an evaluation without its update is left out."""
    log = AppendLog(tmp_path / "metrics.jsonl")
    makes: list[Callable[[int], MetricRecord]] = [
        lambda seq: TrainingStarted(seq, 1, 1.0),
        lambda seq: row(seq, 1, 1),
        lambda seq: EvaluationDone(seq, 1, 1, 64, 2.0, 10.0, 1.0, 5, won=0.5),
        lambda seq: row(seq, 1, 2),
        lambda seq: EvaluationDone(seq, 1, 2, 128, 3.0, 11.0, 1.0, 5),
        lambda seq: TrainingStarted(seq, 2, 4.0, from_update=1, from_timesteps=64),
        lambda seq: row(seq, 2, 2),
        lambda seq: EvaluationDone(seq, 2, 9, 999, 5.0, 12.0, 1.0, 5),
    ]
    for make in makes:
        log.append(make)
    log.close()
    (one,) = mt.runs(RECORDED, group="sweep")[:1]
    updates = structs.replace(one, folder=tmp_path).updates()
    assert [(it["update"], it.get("eval/mean_reward"), it.get("eval/success_rate")) for it in updates] == [
        (1, 10.0, 0.5),
        (2, None, None),
    ]


def test_the_names_that_notebooks_use_are_there() -> None:
    """What was promised once stays: functions with their parameters, fields of a run in the order of the page, the own
    columns of an update. New ones may come after them.
    """
    assert {"Run", "columns", "run", "runs"} <= set(mt.__all__)
    assert [str(inspect.signature(it)) for it in (mt.runs, mt.columns, mt.run)] == [
        "(root: 'str | os.PathLike[str] | None' = None, *, group: 'str | None' = None) -> 'list[Run]'",
        "(chosen: 'Sequence[Run]') -> 'dict[str, list[Any]]'",
        "(folder: 'str | os.PathLike[str]') -> 'Run'",
    ]
    fields = ("id", "folder", "name", "preset", "group", "seed", "outcome", "labels", "settings")
    assert mt.Run.__struct_fields__[: len(fields)] == fields
    own = ("update", "attempt", "timesteps", "t", "rollout_s", "update_s", "steps_per_s", "trained_s")
    assert tuple(mt.runs(RECORDED, group="sweep")[0].updates()[0])[: len(own)] == own
    page = (ROOT / "docs/reading.md").read_text(encoding="utf-8")
    assert [name for name in (*mt.__all__, *fields, *own) if f"`{name}" not in page and f".{name}" not in page] == []


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    """A folder, and a group with the nearest one."""
    with pytest.raises(UsageError, match="there is no folder"):
        mt.runs(tmp_path / "nothing")
    with pytest.raises(UsageError, match=r"is in a group 'swep'; did you mean 'sweep'\?"):
        mt.runs(RECORDED, group="swep")


def test_a_run_that_cannot_be_read_is_left_out_with_a_warning(tmp_path: Path) -> None:
    """The others are there, and nothing in the folder has changed."""
    root = tmp_path / "runs"
    shutil.copytree(RECORDED, root)
    broken = next(root.glob("*-wild-*"))
    (broken / "spec.toml").write_text("[")
    for spec in broken.glob("attempts/*/spec.toml"):
        spec.write_text("[")
    before = sorted((path, path.stat().st_mtime_ns) for path in root.rglob("*"))
    with pytest.warns(UserWarning, match="wild-99c3 is left out"):
        names = [run.name for run in mt.runs(root)]
    assert (len(names), "wild" in names) == (9, False)
    assert sorted((path, path.stat().st_mtime_ns) for path in root.rglob("*")) == before


def test_one_that_cannot_be_read_leaves_the_others_to_be_compared(tmp_path: Path) -> None:
    """Why is said once, a note and no silence names it; where too few are left the reason is the answer."""
    folders = []
    for run in mt.runs(RECORDED, group="sweep"):
        folders.append(tmp_path / run.id)
        shutil.copytree(run.folder, folders[-1])
    (folders[1] / "spec.toml").write_text("[")
    (folders[2] / "metrics.jsonl").unlink()
    (folders[2] / "metrics.jsonl").mkdir()
    said: list[str] = []
    found = compare_runs(folders, said.append)
    assert {run.id for run in found.runs} == {folders[0].name, folders[3].name}
    assert found.notes[0] == f"left out, as their files cannot be read: {folders[1].name}, {folders[2].name}"
    assert [sentence.partition(" is left out: ")[0] for sentence in said] == [folders[1].name, folders[2].name]
    with pytest.raises(DamagedError, match=r"spec.toml: line 1: not valid TOML"):
        compare_runs(folders[:2], said.append)
    file = tmp_path / "sweep.parquet"
    pq = pytest.importorskip("pyarrow.parquet", reason="the extra `parquet` is not installed")
    write_parquet(file, folders[:2])
    assert set(pq.read_table(file).column("run").to_pylist()) == {folders[0].name}


def test_reading_loads_nothing_heavy() -> None:
    """A notebook gets neither torch nor a screen with it, and no array library that it has not chosen."""
    words = f"import sys, mission_tui.read as mt; mt.columns(mt.runs({str(RECORDED)!r})); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", words], capture_output=True, text=True, check=True)
    assert not {"torch", "textual", "numpy", "click", "rich", "gymnasium"} & set(done.stdout.split())


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/reading-runs.ipynb, cell by cell, on a recorded sweep; it was saved without results."""
    matplotlib = pytest.importorskip("matplotlib", reason="the extra `report` is not installed")
    matplotlib.use("agg")
    monkeypatch.setenv("MISSION_TUI_RUNS", str(RECORDED))
    notebook = json.loads((ROOT / "docs/reading-runs.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    known: dict[str, Any] = {}
    for cell in cells:
        exec(compile("".join(cell["source"]), cell["id"], "exec"), known)
    assert known["varied"] == ["ppo.learning_rate"]
    assert {word: len(returns) for word, returns in known["last"].items()} == {
        "learning_rate 0.001": 2,
        "learning_rate 0.003": 2,
    }
    assert len(known["axes"].get_lines()) == 4 + 2
