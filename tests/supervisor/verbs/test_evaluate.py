"""Evaluate: what the supervisor looks at before anything is played."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from msgspec import structs

from mission_tui.errors import UsageError
from mission_tui.ipc.replies import Launched
from mission_tui.ipc.requests import Evaluate, Launch, LaunchItem
from tests.supervisor.conftest import REPOSITORY, Lab, stub_spec
from tests.waiting import until


@pytest.mark.timeout(60)
def test_another_source_of_the_environment_needs_a_word(lab: Lab, tmp_path: Path) -> None:
    """Not that of the launch: refused with the module's name and `--accept`, and nothing is played."""
    (tmp_path / "grid.py").write_text("STEP = 1\n")
    spec = stub_spec(640)
    item = LaunchItem(spec=structs.replace(spec, env=structs.replace(spec.env, imports=("grid",))))
    environ = {"PATH": lab.environ["PATH"], "PYTHONPATH": f"{REPOSITORY}:{tmp_path}"}
    reply = lab.ask(
        lambda id_: Launch(id=id_, items=(item,), cwd=str(tmp_path), python=sys.executable, environ=environ)
    )
    assert isinstance(reply, Launched)
    run = reply.runs[0].id
    lab.ended(run)
    record = lab.dir(run).attempt(1).provenance
    until(record.is_file, 20, "the provenance is recorded")
    # What was seen holds for five seconds, so the record is made that of another module, and not the module another.
    known = json.loads(record.read_bytes())
    assert set(known["sources"]) == {"module:grid"}
    record.write_text(json.dumps(known | {"sources": {"module:grid": "0" * 64}}))
    with pytest.raises(UsageError, match=r"source of module grid is \w+ now and was 0000000 .*--accept"):
        lab.ask(lambda id_: Evaluate(id=id_, run=run))
    assert not lab.dir(run).evaluations.exists()


def test_a_checkpoint_that_nobody_can_call_best(lab: Lab) -> None:
    """`best` is refused without a checkpoint, and a step that is not there is answered with those that are."""
    (run,) = lab.launch(spec=stub_spec(640))
    lab.ended(run)
    with pytest.raises(UsageError, match=r"has no checkpoint '7'.*000000640"):
        lab.ask(lambda id_: Evaluate(id=id_, run=run, checkpoint="7"))
    lab.dir(run).metrics.write_bytes(b"")
    with pytest.raises(UsageError, match="no checkpoint of which a return is known"):
        lab.ask(lambda id_: Evaluate(id=id_, run=run, checkpoint="best"))
