"""Histories of runs against real processes, drawn by Hypothesis: a round is a seed, and a few histories of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from mission_tui.errors import MissionError
from tests.faults.campaign.part import Part, Tell, Violation
from tests.faults.lifecycle import Lifecycle
from tests.faults.witness import watched

__all__ = ["PART", "histories"]

EXAMPLES, STEPS = 4, 30


def histories(number: int, examples: int, steps: int) -> None:
    """Try `examples` histories of seed `number`; the first of each seed is the simplest one. Raises on a violation."""

    class Drawn(Lifecycle):
        pass

    with watched() as witness:
        Lifecycle.witness = witness
        run_state_machine_as_test(
            seed(number)(Drawn),
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                database=None,
                derandomize=False,
                # A history is not made shorter: real processes do not repeat themselves, and the seed is known.
                phases=(Phase.generate,),
                suppress_health_check=list(HealthCheck),
            ),
        )


def _run(rounds: Iterable[int], seed_: int, tell: Tell) -> Iterator[Violation]:
    for index in rounds:
        try:
            histories(seed_ * 1_000_000 + index, EXAMPLES, STEPS)
        except (AssertionError, MissionError, OSError) as error:
            yield f"round {index}: {type(error).__name__}: {error}"
        tell("histories", EXAMPLES)


PART = Part("lifecycle", ("S5", "W1"), 100, _run)
