"""What version 0.1.0 printed of its own runs is printed of them today: no name or value changed, some names came since.

`fixtures/fleet-0.1.0/runs` was recorded by that version: a sweep of four, a run with findings, one stopped and resumed
with more environments after a live change, one whose environment failed, one killed, one parked, and a command that
exited 3. `documents` holds what it then printed. The tensors of checkpoints, event files of TensorBoard and the names
of installed packages were taken out, and paths made neutral.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.shell import Shell, opened

FIXTURE = Path(__file__).parents[1] / "fixtures" / "fleet-0.1.0"
SINCE = {
    "unfit",
    "algorithm",
    "best",
    "branch_of",
    "budget",
    "checkpoint_t",
    "disk_full_high_s",
    "disk_full_low_s",
    "eta_high_s",
    "eta_low_s",
    "failed_duties",
    "goal",
    "heartbeat_t",
    "happened",
    "improvement",
    "iqm",
    "iqm_interval",
    "is_behind",
    "launched_on",
    "launcher",
    "live",
    "loaded",
    "node",
    "open_findings",
    "part_of",
    "quartiles",
    "ranked_by",
    "trials",
    "undo",
    "total",
    "unread",
    "varied",
}
"""Names that came after 0.1.0."""

SINCE_IN_RANKS = {"median"}
"""That of the seeds of one setting, where settings are ranked; elsewhere it has always been there."""

MACHINE = {"runs_root", "supervisor", "host", "gpus", "elsewhere", "stale"}
"""What a document says of the machine it was printed on."""

WORDED = {"sentence", "cause", "advice"}
"""Sentences of findings that are judged anew: their wording may become better."""

ADVISED = {"advice_set", "evidence", "severity", "first_update", "id"}
"""So may what is advised: at a learning rate of 0.3 a usual one, where fewer epochs cured nothing. And `kl-persistent`
is a warning only once the return has stopped rising, so its evidence are the updates of then, and `clip-fraction`
informs until trends may be judged. `kl-spike` knows more of the return's noise, and follows the fall here an update
later; an incident's id has that update in it.
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A shell in a folder whose `runs` are the recorded ones, taken over as one's own."""
    with opened(tmp_path_factory.mktemp("lab")) as shell:
        shutil.copytree(FIXTURE / "runs", shell.root)
        adopted = shell("adopt", "--all", "--trust")
        assert adopted.returncode == 0, adopted.stderr
        assert shell("supervisor", "stop").returncode == 0
        yield shell


def without(document: Any, names: set[str]) -> Any:
    """The document without every field of these names."""
    if isinstance(document, dict):
        names = names | SINCE_IN_RANKS if "place" in document else names
        return {name: without(value, names) for name, value in document.items() if name not in names}
    return [without(value, names) for value in document] if isinstance(document, list) else document


@pytest.mark.parametrize(
    ("name", "words", "code"),
    [
        ("status", ["status"], 0),
        ("provenance", ["status", "wild", "walled", "--provenance"], 0),
        ("findings-wild", ["findings", "wild"], 0),
        ("replay-wild", ["findings", "wild", "--replay"], 0),
        ("judge", ["judge", "runs/20261123-121633-wild-99c3/metrics.jsonl"], 0),
        ("metrics-parked", ["metrics", "parked"], 0),
        ("metrics-script", ["metrics", "script"], 0),
        ("logs-fallen", ["logs", "fallen"], 0),
        ("logs-script", ["logs", "script"], 0),
        ("compare", ["compare", "sweep"], 0),
        ("wait-wild", ["wait", "wild"], 0),
        ("wait-script", ["wait", "script"], 1),
        ("wait-ended", ["wait", "ended"], 75),
        ("wait-parked", ["wait", "parked"], 75),
    ],
)
def test_the_document_is_that_of_before(recorded: Shell, name: str, words: list[str], code: int) -> None:
    """Byte for byte, once names that came since and words about the machine are left out; with the same exit code."""
    done = recorded("--readonly", *words, "--json")
    assert done.returncode == code, done.stderr
    anew = WORDED | ADVISED if name in ("judge", "replay-wild") else set()
    left_out = SINCE | (MACHINE if name == "status" else set()) | anew
    before = (FIXTURE / "documents" / f"{name}.json").read_text(encoding="utf-8")
    today = done.stdout.replace(str(recorded.cwd), "/srv/lab")

    def lines(text: str) -> list[str]:
        return [json.dumps(without(json.loads(line), left_out)) for line in text.splitlines()]

    assert lines(today) == lines(before)
