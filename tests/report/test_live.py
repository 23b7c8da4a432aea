"""Commands that report, and commands that are followed, as runs of a real supervisor."""

from __future__ import annotations

import sys

import pytest
from msgspec import structs

from mission_tui.fleet.events.metrics import MetricRecord, UpdateDone
from mission_tui.fleet.specs.consistency import violations
from mission_tui.fleet.specs.spec import RunSpec, Spec
from mission_tui.records.jsonl import read_all
from tests.supervisor.conftest import Lab, idle_lab, lab, stub_spec
from tests.waiting import until

__all__ = ["idle_lab", "lab"]
pytestmark = pytest.mark.timeout(60)

REPORTING = """
import time
from mission_tui import report
steps = 0
while not report.should_stop():
    report.phase("rollout")
    time.sleep(0.05)
    steps += 64
    report.episode(steps / 10, 20)
    report.phase("update")
    report.update(timesteps=steps, approx_kl=0.01)
report.checkpoint("model.pt")
"""
WRITING = """
import time
with open("progress.csv", "w") as file:
    file.write("time/iterations,time/total_timesteps,rollout/ep_rew_mean,train/approx_kl\\n")
    for number in range(1, {}):
        file.write(f"{{number}},{{64 * number}},{{number}}.0,0.01\\n")
        file.flush()
        time.sleep(0.05)
"""


def python(script: str, **run: object) -> Spec:
    """The spec of a run of a Python script."""
    return Spec(preset="command", run=RunSpec(command=(sys.executable, "-c", script), **run))  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_command_that_reports_is_charted_and_stops_when_asked(lab: Lab) -> None:
    """Updates, steps, speed and phase show; a stop is seen by the script, which ends by itself with its checkpoint."""
    (run,) = lab.launch(spec=python(REPORTING))
    view = lab.wait(run, lambda view: view.connected and (view.update or 0) >= 5, 20)
    assert view.state == "running"
    assert view.timesteps == 64 * (view.update or 0)
    assert view.steps_per_s is not None
    assert 100 < view.steps_per_s < 64 / 0.05
    assert view.metrics["train/approx_kl"] == 0.01
    lab.act("stop", run)
    ended = lab.ended(run, 20)
    assert ended.outcome in ("stopped", "finished")
    assert ended.last_checkpoint == str(lab.root / "model.pt")


@pytest.mark.slow
def test_rows_go_on_while_no_supervisor_lives(lab: Lab) -> None:
    """What was reported meanwhile is in the file, without a gap, and the next supervisor shows it."""
    (run,) = lab.launch(spec=python(REPORTING))
    before = lab.wait(run, lambda view: (view.update or 0) >= 3, 20).update or 0
    lab.kill_supervisor()
    until(lambda: len(rows(lab, run)) > before + 10, 20)
    lab.start()
    lab.wait(run, lambda view: view.connected and (view.update or 0) > before + 10, 20)
    assert [row.update for row in rows(lab, run)] == list(range(1, len(rows(lab, run)) + 1))


@pytest.mark.slow
def test_a_followed_command_is_charted_to_its_last_line(lab: Lab) -> None:
    """`run.follow` shows the rows of a log, the last ones too, and nothing of it is left when the command is gone."""
    (run,) = lab.launch(spec=python(WRITING.format(60), follow="*.csv"))
    lab.wait(run, lambda view: view.state == "running" and (view.update or 0) >= 1, 20)
    view = lab.ended(run, 30)
    assert (view.outcome, view.update, view.timesteps) == ("finished", 59, 59 * 64)
    assert [row.update for row in rows(lab, run)] == list(range(1, 60))
    until(lambda: not [it for it in lab.processes() if "mission_tui.trainer.follow" in it.cmdline()])


@pytest.mark.slow
def test_a_command_that_is_over_at_once_is_followed_too(lab: Lab) -> None:
    """A script that ends before anybody looked shows its rows all the same."""
    (run,) = lab.launch(spec=python(WRITING.format(2), follow="*.csv"))
    assert lab.ended(run, 30).update == 1


def test_only_a_command_is_followed() -> None:
    """The built-in trainer writes its own rows: `run.follow` there is refused."""
    spec = stub_spec()
    (violation,) = violations(structs.replace(spec, run=structs.replace(spec.run, follow="*.csv")))
    assert "run.follow reads the logs of a run.command" in str(violation)


def rows(lab: Lab, run: str) -> list[UpdateDone]:
    """The updates in the run's file."""
    records, damage = read_all(lab.dir(run).metrics, MetricRecord)
    assert damage == []
    return [record for record in records if isinstance(record, UpdateDone)]
