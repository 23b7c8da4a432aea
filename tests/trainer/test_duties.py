"""What a trainer cannot do beside training is a row of its record, with the reason; the training goes on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from mission_tui.fleet.events.metrics import DutyFailed
from mission_tui.fleet.specs.spec import EvaluateSpec
from mission_tui.ipc.telemetry_messages import Order, PhaseEntered, TelemetryMessage, TrainerDutyFailed
from mission_tui.records import atomic
from mission_tui.records.atomic import StorageError
from mission_tui.trainer import periodic_evaluation, training
from mission_tui.trainer.orders import Orders
from tests.trainer.harness import Ran, new_run, run_attempt, spec_with

Break = Callable[[pytest.MonkeyPatch], None]


def refuse(*_words: Any, **_more: Any) -> None:
    """As a disk without inodes does."""
    raise StorageError("cannot write it: no inodes", 28)


def no_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that plays ends at once."""
    monkeypatch.setattr(periodic_evaluation, "module_words", lambda _module: (str(shutil.which("false")),))


def no_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorBoard's writer cannot write."""
    writer = pytest.importorskip("torch.utils.tensorboard").SummaryWriter

    def add_scalar(*_words: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer, "add_scalar", add_scalar)


def no_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was loaded cannot be written down."""
    monkeypatch.setattr(training, "write_json", refuse)


def no_effective(monkeypatch: pytest.MonkeyPatch) -> None:
    """`effective.toml` can be written once."""
    write, written = atomic.write_atomic, list[Path]()

    def once(path: Path, content: bytes) -> None:
        if written:
            refuse()
        written.append(path)
        write(path, content)

    monkeypatch.setattr(training, "write_atomic", once)


def set_rate(message: TelemetryMessage, orders: Orders) -> None:
    """Somebody sets the learning rate after the second update."""
    if isinstance(message, PhaseEntered) and (message.phase, message.update) == ("rollout", 2):
        orders.obey(Order("set", number=7, assignments=("ppo.learning_rate=1e-4",)))


@pytest.mark.parametrize(
    ("breaks", "duty", "why"),
    [
        (no_evaluation, "evaluation", "gave no result (exit code 1)"),
        (
            no_events,
            "TensorBoard events",
            "they go on once there is room; `mission-tui track run --to tensorboard` writes all",
        ),
        (no_loaded, "record of what was loaded", "no inodes"),
        (no_effective, "effective.toml", "no inodes"),
    ],
)
def test_what_could_not_be_done_is_recorded_and_said(
    breaks: Break, duty: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row with its number and the same word on the socket, and a training that ends as it should."""
    breaks(monkeypatch)
    spec = structs.replace(spec_with(), evaluate=EvaluateSpec(every=64 if duty == "evaluation" else None, episodes=1))
    ran: Ran = run_attempt(new_run(tmp_path / "run", spec), hook=set_rate)
    assert ran.ended().how == "finished"
    rows = [row for row in ran.records() if isinstance(row, DutyFailed)]
    assert {row.duty for row in rows} == {duty}
    assert why in rows[0].why
    said = [message for message in ran.said if isinstance(message, TrainerDutyFailed)]
    assert [(it.duty, it.why, it.number) for it in said] == [(it.duty, it.why, it.number) for it in rows]
