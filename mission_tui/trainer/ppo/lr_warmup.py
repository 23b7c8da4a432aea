"""How an attempt is eased in: the terms of the resume that last, and how far they have been carried out.

The learning rate is what the spec says times one factor, looked up before every gradient step. The count is part of
every boundary, so a stop in the middle of a warm-up goes on there, bit for bit.
"""

from __future__ import annotations

from typing import Any, Self

import msgspec

from mission_tui.fleet.resume.verdict import AS_IT_WAS, Terms


class LrWarmup:
    """Counts updates and gradient steps since the terms began."""

    def __init__(self, terms: Terms = AS_IT_WAS, updates: int = 0, gradient_steps: int = 0) -> None:
        self.terms = terms
        self.updates = updates
        self.gradient_steps = gradient_steps

    @classmethod
    def from_state(cls, state: dict[str, Any] | None) -> Self:
        """The warm-up that a boundary was taken in; none when it says nothing."""
        if not state:
            return cls()
        return cls(msgspec.convert(state["terms"], Terms), int(state["updates"]), int(state["gradient_steps"]))

    @property
    def state(self) -> dict[str, Any] | None:
        """JSON values for a boundary; None when there is nothing left to do."""
        if self.over:
            return None
        terms = msgspec.to_builtins(self.terms)
        return {"terms": terms, "updates": self.updates, "gradient_steps": self.gradient_steps}

    @property
    def over(self) -> bool:
        """Whether the learning rate is what the spec says from here on."""
        return self.terms.over(self.updates, self.gradient_steps)

    @property
    def factor(self) -> float:
        """What the next gradient step's learning rate is multiplied by."""
        return self.terms.learning_rate_factor(self.updates, self.gradient_steps)

    def stepped(self) -> None:
        """A gradient step was made."""
        self.gradient_steps += 1

    def updated(self) -> None:
        """An update is complete."""
        self.updates += 1

    @property
    def sentence(self) -> str:
        """What is being done and how far it is, for `effective.toml`."""
        done = f"{self.updates} updates and {self.gradient_steps:,} gradient steps are done"
        return f"x {self.factor:.3g}: {self.terms.sentence}; {done}"
