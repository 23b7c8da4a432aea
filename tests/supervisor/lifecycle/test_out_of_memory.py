"""A run that ended for lack of memory says what would need less, until its next attempt begins."""

from __future__ import annotations

import sys

from mission_tui.fleet.specs.spec import RunSpec, Spec
from mission_tui.ipc.requests import Resume
from tests.supervisor.conftest import Lab

HUNGRY = """
import pathlib, sys, time
if not pathlib.Path("again").exists():
    pathlib.Path("again").touch()
    sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
time.sleep(600)
"""


def test_the_last_words_of_a_command_become_a_finding_with_its_own_flag(lab: Lab) -> None:
    """Critical, with half of what it was started with; the attempt after it has its own story."""
    command = (sys.executable, "-c", HUNGRY, "--minibatch-size", "256")
    (run,) = lab.launch(spec=Spec(preset="command", run=RunSpec(command=command, resume_command=command)))
    view = lab.ended(run)
    (found,) = [it for it in view.findings if it.rule == "out-of-memory"]
    assert (found.severity, found.state) == ("critical", "open")
    assert "on the GPU: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB." in found.sentence
    assert found.advice.endswith("(run it with --minibatch-size 128)")
    lab.ask(lambda id_: Resume(id=id_, run=run, accept=True))
    view = lab.wait(run, lambda seen: seen.state == "running")
    assert [it.state for it in view.findings if it.rule == "out-of-memory"] == ["cleared"]
