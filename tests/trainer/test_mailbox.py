"""A trainer that no socket reaches: it reads its orders in its attempt's directory, and answers there."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mission_tui.fleet.events.metrics import SettingsChanged
from mission_tui.ipc.telemetry_messages import (
    CheckpointAnswered,
    Heartbeat,
    NumberedOrder,
    Order,
    PhaseEntered,
    TelemetryMessage,
    TrainerHello,
    TrainerWord,
)
from mission_tui.records.jsonl import AppendLog
from mission_tui.records.runs.layout import AttemptDir, RunDir
from mission_tui.trainer.orders import Mailbox
from tests.trainer.harness import new_run, spec_with
from tests.trainer.test_main import ENDLESS, last, rows, trainer
from tests.waiting import until

HELLO = TrainerHello(1, "run", 1, "secret", 1)


def word(folder: AttemptDir) -> TrainerWord:
    """What the trainer says of itself."""
    return msgspec.json.decode(folder.alive.read_bytes(), type=TrainerWord)


def newest(folder: AttemptDir, kind: type[TelemetryMessage]) -> Any:
    """The newest message of `kind`, if one was said."""
    return next((message for message in word(folder).messages if isinstance(message, kind)), None)


def give(folder: AttemptDir, *orders: Order) -> None:
    """As a supervisor does."""
    file = AppendLog(folder.orders)
    for order in orders:
        file.append(lambda seq, order=order: NumberedOrder(seq, time.time(), order))  # type: ignore[misc]
    file.close()


def hear(mailbox: Mailbox, heard: list[Order]) -> list[Order]:
    """`heard`, with what has come since."""
    heard += mailbox.orders()
    return heard


def test_orders_are_taken_once_and_in_order_and_damage_costs_its_line(tmp_path: Path) -> None:
    """What a broken line said is lost, and nothing beside it; half a line waits for its end."""
    folder = AttemptDir(tmp_path)
    give(folder, Order("pause"), Order("checkpoint", number=7))
    whole = folder.orders.read_bytes()
    folder.orders.write_bytes(b'{"seq":1,"crc":"00000000"}\n' + whole + b'{"seq":3,')
    mailbox = Mailbox(folder, HELLO)
    try:
        heard: list[Order] = []
        until(lambda: len(hear(mailbox, heard)) == 2, 5)
        assert heard == [Order("pause"), Order("checkpoint", number=7)]
        with folder.orders.open("ab") as file:
            file.write(b'"t":0}\n')
        give(folder, Order("stop"))
        until(lambda: len(hear(mailbox, heard)) == 3, 5)
        assert heard[2:] == [Order("stop")]
    finally:
        mailbox.close()


def test_a_disk_that_refuses_costs_a_word_and_no_more(tmp_path: Path) -> None:
    """The folder is gone for a while: nothing is raised, and the newest word is there once it is back."""
    folder = AttemptDir(tmp_path / "attempts" / "1")
    mailbox = Mailbox(folder, HELLO)
    try:
        mailbox.send(CheckpointAnswered(1, "000000064"))
        mailbox.send(CheckpointAnswered(2, "000000128"))
        until(lambda: mailbox.dropped, 5)
        folder.path.mkdir(parents=True)
        until(folder.alive.exists, 5)
        assert newest(folder, CheckpointAnswered) == CheckpointAnswered(2, "000000128")
        assert newest(folder, Heartbeat).dropped > 0
    finally:
        mailbox.close()


@pytest.mark.slow
@pytest.mark.process
def test_a_trainer_obeys_and_answers_by_file(tmp_path: Path) -> None:
    """Pause, save, set, go on and stop, without any socket; each is answered where whoever asked can read it."""
    run_dir: RunDir = new_run(tmp_path / "run", spec_with(run=ENDLESS))
    folder = run_dir.attempt(1)
    folder.path.mkdir(parents=True)
    with trainer(run_dir, "1", MISSION_TUI_MAILBOX="1", MISSION_TUI_NONCE="secret") as process:
        until(lambda: rows(run_dir) and folder.alive.exists(), 30)
        assert (word(folder).hello.nonce, word(folder).hello.pid) == ("secret", process.pid)
        give(folder, Order("pause"))
        until(lambda: (said := newest(folder, PhaseEntered)) is not None and said.phase == "paused")
        beat = word(folder).beat
        give(folder, Order("checkpoint", number=12))
        answer = until(lambda: newest(folder, CheckpointAnswered))
        assert (answer.number, (run_dir.checkpoints / answer.checkpoint).is_dir()) == (12, True)
        until(lambda: word(folder).beat > beat + 1)
        give(folder, Order("set", number=13, assignments=("ppo.clip_range=0.1",)), Order("unpause"))
        until(lambda: any(isinstance(row, SettingsChanged) for row in rows(run_dir)))
        give(folder, Order("stop"))
        assert process.wait(20) == 0
    assert last(run_dir).how == "stopped"
    assert newest(folder, PhaseEntered).phase in ("ending", "saving")
