"""SB3's and sb3-contrib's other algorithms, trained by their own operations, in periods that can be given up."""

from __future__ import annotations

import importlib
from functools import cache
from typing import ClassVar

from mission_tui.fleet.specs.sb3_algorithms import ArsSpec, OtherAlgorithm
from mission_tui.trainer.sb3_algorithms.periods import PeriodLearner, SearchLearner


@cache
def learner_class(other: OtherAlgorithm) -> type[PeriodLearner]:
    """The class that trains `other`. Its package is loaded by whoever trains with it; see `check_contrib`."""
    sb3 = getattr(importlib.import_module(other.package), other.called)
    learner = SearchLearner if other.table is ArsSpec else PeriodLearner

    class Trained(learner, sb3):  # type: ignore[misc, valid-type]  # of classes that are known at run time
        algo: ClassVar[str] = other.name

    Trained.__name__ = Trained.__qualname__ = other.called
    return Trained
