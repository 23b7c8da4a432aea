"""What a finding makes the supervisor ask of a trainer: a checkpoint with its reason, and one that must not go."""

from __future__ import annotations

from pathlib import Path

from mission_tui.ipc.telemetry_messages import Order, PhaseEntered, TelemetryMessage
from mission_tui.records.runs.checkpoint import list_checkpoints
from mission_tui.trainer.orders import Orders
from tests.trainer.harness import Ran, new_run, run_attempt, spec_with


def ordered(run: Path, order: Order, at: int, every_steps: int) -> Ran:
    """A run of 6 updates of 64 steps that keeps 2 checkpoints and gets `order` after `at` updates."""

    def hook(message: TelemetryMessage, orders: Orders) -> None:
        if isinstance(message, PhaseEntered) and (message.phase, message.update) == ("update", at):
            orders.obey(order)

    spec = spec_with(keep={"checkpoint": {"every_steps": every_steps, "last": 2, "spread": 0}})
    return run_attempt(new_run(run, spec), hook=hook)


def test_a_checkpoint_for_a_finding_says_so(tmp_path: Path) -> None:
    """The reason of the order is the reason of the checkpoint; without one it was a person who asked."""
    for order, reason in ((Order("checkpoint", reason="finding"), "finding"), (Order("checkpoint"), "asked")):
        ran = ordered(tmp_path / reason, order, at=3, every_steps=64)
        assert [save.reason for save in ran.saves()] == ["steps"] * 3 + [reason, "steps", "end"]


def test_the_checkpoint_that_is_gone_back_to_outlives_the_stop(tmp_path: Path) -> None:
    """Retention keeps two, the stop's among them; the one that the next attempt needs stays beside them."""
    left = {}
    for keep in ((), ("000000128",)):
        ran = ordered(tmp_path / f"keep-{len(keep)}", Order("stop", keep=keep), at=5, every_steps=128)
        assert ran.ended().how == "stopped"
        left[keep] = [manifest.name for manifest in list_checkpoints(ran.run_dir.checkpoints)]
    assert left == {(): ["000000256", "000000320"], ("000000128",): ["000000128", "000000256", "000000320"]}


def test_what_an_open_finding_would_go_back_to_stays_until_it_is_over(tmp_path: Path) -> None:
    """Retention keeps two and the named one; once nothing is named any more it goes with the next save."""
    left = {}
    for last in (6, 4):

        def hook(message: TelemetryMessage, orders: Orders, last: int = last) -> None:
            if isinstance(message, PhaseEntered) and message.phase == "update" and message.update in (1, last):
                orders.obey(Order("keep", keep=("000000064",) if message.update == 1 else ()))

        spec = spec_with(keep={"checkpoint": {"every_steps": 64, "last": 2, "spread": 0}})
        ran = run_attempt(new_run(tmp_path / str(last), spec), hook=hook)
        left[last] = [manifest.name for manifest in list_checkpoints(ran.run_dir.checkpoints)]
    assert left == {6: ["000000064", "000000320", "000000384"], 4: ["000000320", "000000384"]}
