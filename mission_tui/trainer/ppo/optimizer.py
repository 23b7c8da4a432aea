"""Adam over all parameters as one vector: torch's operations in its order, once per step instead of once per parameter;
and the warm-up of its learning rate after a resume.

Parameters, gradients and moments of a policy become views of four long vectors. Names, shapes, `state` and
`state_dict` stay those of `torch.optim.Adam`, so checkpoints do not know the difference.

In a warm-up the learning rate is what the spec says times one factor, looked up before every gradient step. Its count
is part of every boundary, so a stop in the middle of a warm-up goes on there, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import msgspec
import torch as th

from mission_tui.fleet.resume.verdict import AS_IT_WAS, Terms

_ALIGNED = 16
"""Views begin at multiples of 64 bytes, as tensors of their own would."""


class FlatAdam(th.optim.Adam):
    """For float32 parameters of one device that all get a gradient in every step, without weight decay or AMSGrad."""

    def __init__(self, parameters: list[th.nn.Parameter], lr: float, betas: tuple[float, float], eps: float) -> None:
        super().__init__(parameters, lr=lr, betas=betas, eps=eps)
        self._owned = parameters
        room = sum(-(-parameter.numel() // _ALIGNED) * _ALIGNED for parameter in parameters)
        self._values, self._gradients, self._first, self._second = (
            th.zeros(room, device=parameters[0].device) for _ in range(4)
        )
        self._count = th.tensor(0.0)
        # Where steps are captured as graphs, what changes from step to step is read from here.
        self._of_this_step = th.zeros(2, device=parameters[0].device).unbind(0)
        with th.no_grad():
            self._gradient_views = self._views(self._gradients)
            for parameter, value, gradient in zip(
                parameters, self._views(self._values), self._gradient_views, strict=True
            ):
                value.copy_(parameter)
                parameter.data = value
                parameter.grad = gradient

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Gradients always exist: `backward` adds to them in place."""
        self._gradients.zero_()

    def clip(self, max_norm: float) -> th.Tensor:
        """Scale all gradients as `torch.nn.utils.clip_grad_norm_` does; returns their norm before."""
        norms = th._foreach_norm(self._gradient_views)
        norm: th.Tensor = th.linalg.vector_norm(th.stack(norms))
        self._gradients.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))
        return norm

    @property
    def vectors(self) -> tuple[th.Tensor, th.Tensor, th.Tensor, th.Tensor]:
        """Parameters, gradients, first and second moments, each of shape (all parameters,)."""
        return self._values, self._gradients, self._first, self._second

    def count_step(self) -> float:
        """Count a step, made here or by somebody else on the `vectors`; its number from 1."""
        if not self.state:
            self._show_state()
        count = self._count.numpy()  # the same memory: torch's own addition takes ten times as long
        count += 1
        return float(count)

    @th.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One step of the Adam paper's algorithm 1, https://arxiv.org/abs/1412.6980, by torch's own operations."""
        assert closure is None
        if self._values.device.type != "cpu":
            self.count_ahead()
            self.step_counted()
            return
        group = self.param_groups[0]
        correction, step_size = self._next_step()
        denominator = (self._moments_sqrt() / correction).add_(group["eps"])
        self._values.addcdiv_(self._first, denominator, value=-step_size)

    def count_ahead(self) -> None:
        """Count a step on a card and write down what it is made with, for `step_counted`."""
        for kept, value in zip(self._of_this_step, self._next_step(), strict=True):
            kept.fill_(value)

    @th.no_grad()
    def step_counted(self) -> None:
        """The step itself, with no number of the host in it that changes from step to step."""
        correction, step_size = self._of_this_step
        denominator = (self._moments_sqrt() / correction).add_(self.param_groups[0]["eps"])
        self._values.sub_(self._first.div(denominator).mul_(step_size))

    def _next_step(self) -> tuple[float, float]:
        """The root of the second moments' correction, and how far to go along the first ones."""
        group, count = self.param_groups[0], self.count_step()
        beta1, beta2 = group["betas"]
        return float((1 - beta2**count) ** 0.5), float(group["lr"] / (1 - beta1**count))

    def _moments_sqrt(self) -> th.Tensor:
        """Move both moments on by the gradients; the root of the second."""
        beta1, beta2 = self.param_groups[0]["betas"]
        self._first.lerp_(self._gradients, 1 - beta1)
        self._second.mul_(beta2).addcmul_(self._gradients, self._gradients, value=1 - beta2)
        return self._second.sqrt()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take moments over; torch would keep tensors of its own instead of filling ours."""
        super().load_state_dict(state_dict)
        loaded = [self.state[parameter] for parameter in self._owned if parameter in self.state]
        self._count.zero_()
        if loaded:
            self._count.fill_(float(loaded[0]["step"]))
            with th.no_grad():
                for state, first, second in zip(
                    loaded, self._views(self._first), self._views(self._second), strict=True
                ):
                    first.copy_(state["exp_avg"])
                    second.copy_(state["exp_avg_sq"])
            self._show_state()

    def _show_state(self) -> None:
        views = zip(self._owned, self._views(self._first), self._views(self._second), strict=True)
        for parameter, first, second in views:
            self.state[parameter] = {"step": self._count, "exp_avg": first, "exp_avg_sq": second}

    def _views(self, vector: th.Tensor) -> list[th.Tensor]:
        views, start = [], 0
        for parameter in self._owned:
            size = parameter.numel()
            views.append(vector[start : start + size].view(parameter.shape))
            start += -(-size // _ALIGNED) * _ALIGNED
        return views


def flattened(optimizer: th.optim.Optimizer) -> th.optim.Optimizer:
    """`optimizer`, or a fresh `FlatAdam` in its place if it is a plain Adam that has not stepped yet."""
    if type(optimizer) is not th.optim.Adam or len(optimizer.param_groups) != 1 or optimizer.state:
        return optimizer
    group = optimizer.param_groups[0]
    parameters = list(group["params"])
    alike = {(parameter.dtype, parameter.device, parameter.requires_grad) for parameter in parameters}
    unusual = any(
        group[name] for name in ("weight_decay", "amsgrad", "maximize", "capturable", "differentiable", "fused")
    )
    if unusual or len(alike) != 1 or alike != {(th.float32, parameters[0].device, True)}:
        return optimizer
    return FlatAdam(parameters, group["lr"], group["betas"], group["eps"])


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
