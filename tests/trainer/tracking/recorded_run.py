"""A run directory as its files would tell of it: two attempts, an evaluation, a finding that opened and was over."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.journal import FindingChanged
from mission_tui.fleet.events.metrics import CheckpointSaved, EvaluationDone
from mission_tui.fleet.specs.spec import Spec
from mission_tui.records.jsonl import AppendLog
from mission_tui.records.runs.attempt import write_spec
from mission_tui.records.runs.layout import RunDir
from tests.fleet.recorded import SPEC, STEPS, stopped_and_resumed

FINDING = Finding(
    id="kl-persistent-1-3",
    rule="kl-persistent",
    severity="warning",
    first_update=3,
    last_update=3,
    sentence="KL is high",
    cause="the rate is high",
    advice="halve it",
    evidence=({"update": 3.0, "timesteps": 3.0 * STEPS},),
)


def recorded_run(root: Path, spec: Spec = SPEC) -> RunDir:
    """The run, which has ended, with its newest checkpoint."""
    run = RunDir(root / "20261121-104207-first-3f9a")
    (run.checkpoints / "000010240").mkdir(parents=True)
    (run.checkpoints / "000010240" / "state.json").write_text("{}")
    write_spec(run.spec, spec)
    events, records = stopped_and_resumed()
    last = records[-1].seq
    records[-1:-1] = [
        EvaluationDone(last, 2, 10, 10 * STEPS, 119.0, mean=123.0, std=4.0, episodes=20, won=0.5),
        CheckpointSaved(last, 2, 10, 10 * STEPS, 119.5, "000010240", "end"),
    ]
    told = [FindingChanged(0, 94.0, FINDING), FindingChanged(0, 95.5, structs.replace(FINDING, state="cleared"))]
    for path, lines in ((run.metrics, records), (run.events, [*events[:-1], *told, events[-1]])):
        log = AppendLog(path)
        for line in lines:
            log.append(lambda seq, line=line: structs.replace(line, seq=seq))  # type: ignore[misc]
        log.close()
    return run
