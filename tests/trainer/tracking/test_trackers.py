"""wandb offline, MLflow's file store and trackio, read back by their own libraries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from mission_tui.errors import MissionError
from mission_tui.fleet.specs.spec import Spec
from mission_tui.records.runs.layout import RunDir
from mission_tui.run_module import module_words
from mission_tui.trainer.tracking.news import about
from mission_tui.trainer.tracking.trackers import connect
from tests.fleet.recorded import SPEC, STEPS
from tests.trainer.tracking.recorded_run import recorded_run
from tests.trainer.tracking.test_forwarding import RETURN, tracked

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
RETURNS = [1.0, 2.0, 3.0, 4.0, 103.0, 104.0, 105.0, 106.0, 107.0, 108.0, 109.0, 110.0]
AT = [STEPS * it for it in (1, 2, 3, 4, 3, 4, 5, 6, 7, 8, 9, 10)]

WANDB = """
import json, struct, sys
from wandb.proto.wandb_internal_pb2 import Record
raw = open(sys.argv[1], "rb").read()
at, part, found = 7, b"", {"history": [], "config": {}, "summary": {}, "artifacts": 0}
while at + 7 <= len(raw):
    if 32768 - at % 32768 < 7:
        at += 32768 - at % 32768
        continue
    _, length, kind = struct.unpack("<IHB", raw[at : at + 7])
    part += raw[at + 7 : at + 7 + length]
    at += 7 + length
    if kind in (1, 4):
        record, part = Record.FromString(part), b""
        if record.HasField("history"):
            found["history"].append({it.key or "/".join(it.nested_key): json.loads(it.value_json)
                                     for it in record.history.item})
        for it in record.run.config.update:
            found["config"][it.key or "/".join(it.nested_key)] = json.loads(it.value_json)
        for it in record.summary.update:
            found["summary"][it.key or "/".join(it.nested_key)] = json.loads(it.value_json)
        found["artifacts"] += record.HasField("artifact") or record.request.HasField("log_artifact")
        if record.HasField("run") and record.run.display_name:
            found["name"], found["id"] = record.run.display_name, record.run.run_id
print(json.dumps(found))
"""
"""The file is LevelDB's log: blocks of 32 KiB, records with checksum, length and kind."""

MLFLOW = """
import json, sys
from mlflow import MlflowClient
client = MlflowClient(tracking_uri=sys.argv[1])
(experiment,) = [it for it in client.search_experiments() if it.name == "mission-tui"]
(run,) = client.search_runs([experiment.experiment_id])
history = client.get_metric_history(run.info.run_id, "rollout/ep_rew_mean")
played = client.get_metric_history(run.info.run_id, "evaluate/mean_reward")
print(json.dumps({
    "params": run.data.params, "tags": run.data.tags, "status": run.info.status,
    "history": [(it.step, it.value) for it in history],
    "played": [(it.step, it.value) for it in played],
    "artifacts": [it.path for it in client.list_artifacts(run.info.run_id, "checkpoints")],
}))
"""

TRACKIO = """
import json, trackio
from trackio.sqlite_storage import SQLiteStorage
(run,) = trackio.Api().runs("mission-tui")
print(json.dumps({"name": run.name, "config": run.config, "logs": SQLiteStorage.get_logs("mission-tui", run.name)}))
"""


def ended_run(root: Path, spec: Spec) -> Path:
    """One that was evaluated after its end."""
    run = recorded_run(root, spec)
    run.evaluations.mkdir()
    result = {"checkpoint": "000010240", "t": 130.0, "mean": 480.0, "std": 5.0, "won": None, "episodes": 20}
    (run.evaluations / "000010240-a.json").write_text(json.dumps(result))
    return run.path


def passed_on(run: Path, tracker: str, **environ: str) -> None:
    """The run passed on by a process of its own, with nobody logged in anywhere."""
    if find_spec(tracker) is None:
        pytest.skip(f"the {tracker} extra is not installed")
    argv = (*module_words("mission_tui.trainer.tracking"), str(run), tracker)
    done = subprocess.run(argv, env=at_home(run, **environ), capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr


def at_home(run: Path, **environ: str) -> dict[str, str]:
    """Variables under which no library finds a login, and writes nothing outside the test's folder."""
    home = str(run.parent)
    return {
        **os.environ,
        "HOME": home,
        "XDG_CACHE_HOME": home,
        "WANDB_CACHE_DIR": home,
        "WANDB_DATA_DIR": home,
        **environ,
    }


def said(run: Path, script: str, *words: str, **environ: str) -> Any:
    """What `script`, with the tracker's own library, prints of it."""
    argv = (sys.executable, "-c", script, *words)
    done = subprocess.run(argv, env=at_home(run, **environ), capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_wandb_reads_back_what_was_written_offline(tmp_path: Path) -> None:
    """Curves over their timesteps and the time of their rows, settings, the finding, the outcome, an evaluation, the
    checkpoint as an artifact.
    """
    run = ended_run(tmp_path, tracked(checkpoints=True))
    passed_on(run, "wandb")
    (file,) = run.glob("wandb/offline-run-*/*.wandb")
    read = said(run, WANDB, str(file))
    returns = [(it["timesteps"], it[RETURN]) for it in read["history"] if RETURN in it]
    assert returns == list(zip(AT, RETURNS, strict=True))
    written = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert {it["_timestamp"] for it in read["history"]} == {
        it["t"] for it in written if it["kind"] in ("update", "evaluation")
    }
    assert (read["name"], read["id"]) == ("first", run.name)
    assert read["config"]["ppo.batch_size"] == 256
    assert read["summary"]["finding/kl-persistent-1-3"].startswith("over: KL is high")
    assert read["summary"]["outcome"] == "finished"
    assert read["summary"]["evaluate/mean_reward@10240"] == 480.0
    assert read["artifacts"] == 1


def test_mlflow_reads_back_its_file_store(tmp_path: Path) -> None:
    """Curves, an evaluation, settings as parameters, the finding and the outcome as tags, files of the checkpoint;
    closed to other users, as the run is.
    """
    run = ended_run(tmp_path, tracked(checkpoints=True))
    passed_on(run, "mlflow")
    assert (tmp_path / "mlruns").stat().st_mode & 0o077 == 0
    read = said(run, MLFLOW, (tmp_path / "mlruns").as_uri(), MLFLOW_ALLOW_FILE_STORE="true")
    assert sorted(map(tuple, read["history"])) == sorted(zip(AT, RETURNS, strict=True))
    assert read["played"] == [[10_240, 480.0]]
    assert read["params"]["ppo.batch_size"] == "256"
    assert read["tags"]["mission_tui.run"] == run.name
    assert read["tags"]["finding.kl-persistent-1-3"].startswith("over: KL is high")
    assert (read["tags"]["outcome"], read["status"]) == ("finished", "FINISHED")
    assert read["artifacts"] == ["checkpoints/000010240"]


def test_a_store_that_came_with_its_root_has_nothing_written_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither checkpoints, where it names another place for them, nor anything else through a link."""
    pytest.importorskip("mlflow", reason="the extra `mlflow` is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    from mlflow import MlflowClient

    run, elsewhere = ended_run(tmp_path, tracked(checkpoints=True)), tmp_path / "elsewhere"
    facts, store = about(RunDir(run)), tmp_path / "mlruns"
    client = MlflowClient(tracking_uri=store.as_uri())
    experiment = client.create_experiment("mission-tui", artifact_location=elsewhere.as_uri())
    with pytest.raises(MissionError, match=r"says that checkpoints go to file://.*elsewhere"):
        connect("mlflow", facts, run, "", online=False)
    client.rename_experiment(experiment, "other")
    experiment = client.create_experiment("mission-tui")
    made = client.create_run(experiment, tags={"mission_tui.run": run.name}).info.run_id
    (tmp_path / "mine").write_text("mine")
    (store / experiment / made / "tags" / "outcome").symlink_to(tmp_path / "mine")
    with pytest.raises(MissionError, match=r"tags/outcome is a link"):
        connect("mlflow", facts, run, "", online=False)
    (store / experiment / made / "tags" / "outcome").unlink()
    connect("mlflow", facts, run, "", online=False).end("finished")
    store.rename(tmp_path / "moved")
    store.symlink_to(tmp_path / "moved")
    with pytest.raises(MissionError, match=r"mlruns is a link"):
        connect("mlflow", facts, run, "", online=False)
    assert not elsewhere.exists()
    assert (tmp_path / "mine").read_text() == "mine"


def test_trackio_reads_back_its_own_folder(tmp_path: Path) -> None:
    """Curves and an evaluation by timesteps, and settings."""
    run = ended_run(tmp_path, SPEC)
    passed_on(run, "trackio", TRACKIO_DIR=str(tmp_path / "trackio"))
    read = said(run, TRACKIO, TRACKIO_DIR=str(tmp_path / "trackio"))
    assert [(it["step"], it[RETURN]) for it in read["logs"] if RETURN in it] == list(zip(AT, RETURNS, strict=True))
    assert [it["step"] for it in read["logs"] if it.get("evaluate/mean_reward") == 480.0] == [10_240]
    assert read["config"]["ppo/batch_size"] == "256"
