"""A stack of linear layers that writes into memory it already has, forwards and backwards.

Autograd allocates every activation and every gradient anew; beyond a few hundred rows that costs as much as computing
them. The operations, and the layout of their operands, are those autograd would have chosen; a quick tower on a CPU
replaces two of them by others that are right to the last bit or two.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch as th

Activation = Literal["tanh", "relu"] | None

_NARROW, _LONG = 32, 256
"""Below so many features, from so many rows on, MKL multiplies `features.T @ gradient` up to 8 times as fast as its
transpose; it sums up to 8 features in another order then.
"""


@dataclass(frozen=True, slots=True)
class _Layer:
    module: th.nn.Linear
    activation: Activation


class MlpStack:
    """Maps (batch, features) to (batch, outputs). What it returns is overwritten by its next call of the same batch."""

    def __init__(self, layers: list[_Layer], *, quick: bool) -> None:
        self._layers = layers
        # Detached: whether gradients are recorded need not be asked, nor switched off, at every call.
        self._weights = [layer.module.weight.detach() for layer in layers]
        self._transposed = [weight.t() for weight in self._weights]
        self._biases = [layer.module.bias.detach() for layer in layers]
        self._outputs: dict[int, list[th.Tensor]] = {}
        self._gradients: dict[int, list[th.Tensor]] = {}
        self._features = th.empty(0)
        self._quick = quick and self._weights[0].device.type == "cpu"

    def forward(self, features: th.Tensor) -> th.Tensor:
        """Outputs, shape (batch, outputs), outside of autograd."""
        self._features = batch = features
        rooms = self._rooms(self._outputs)
        for layer, bias, weight, room in zip(self._layers, self._biases, self._transposed, rooms, strict=True):
            batch = th.addmm(bias, batch, weight, out=room)
            if layer.activation == "tanh":
                self._squash(batch)
            elif layer.activation == "relu":
                batch.relu_()
        return batch

    def backward(self, gradient: th.Tensor) -> None:
        """Write every parameter's gradient, given that of the last outputs, shape (batch, outputs)."""
        outputs, rooms = self._rooms(self._outputs), self._rooms(self._gradients)
        for index in reversed(range(len(self._layers))):
            layer, output = self._layers[index], outputs[index]
            if layer.activation == "tanh":
                th.ops.aten.tanh_backward.grad_input(gradient, output, grad_input=gradient)
            elif layer.activation == "relu":
                th.ops.aten.threshold_backward.grad_input(gradient, output, 0, grad_input=gradient)
            below = outputs[index - 1] if index else self._features
            self._weigh(gradient, below, gradient_of(layer.module.weight))
            th.sum(gradient, 0, out=gradient_of(layer.module.bias))
            if index:
                gradient = th.mm(gradient, self._weights[index], out=rooms[index - 1])

    def _squash(self, batch: th.Tensor) -> None:
        if self._quick:
            # NumPy's tanh takes a seventh of the time of torch's, which is right to half a unit in the last place.
            array = batch.numpy()
            np.tanh(array, out=array)
        else:
            batch.tanh_()

    def _weigh(self, gradient: th.Tensor, below: th.Tensor, room: th.Tensor) -> None:
        """Write the gradient of a layer's weight."""
        rows, features = below.shape
        if self._quick and rows >= _LONG and features < min(_NARROW, gradient.shape[1]):
            room.copy_(th.mm(below.t(), gradient).t())
        else:
            th.mm(gradient.t(), below, out=room)

    def _rooms(self, kept: dict[int, list[th.Tensor]]) -> list[th.Tensor]:
        size = len(self._features)
        if size not in kept:
            kept[size] = [self._features.new_empty((size, layer.module.out_features)) for layer in self._layers]
        return kept[size]


def mlp_stack_of(modules: Iterable[th.nn.Module], *, quick: bool = True) -> MlpStack | None:
    """The stack of `modules`; None if there is anything but biased linear layers, tanh and ReLU among them.

    A `quick` one rounds some numbers otherwise than torch, and as well.
    """
    layers: list[_Layer] = []
    for module in modules:
        if type(module) is th.nn.Linear and module.bias is not None:
            layers.append(_Layer(module, None))
        elif type(module) in (th.nn.Tanh, th.nn.ReLU) and layers and layers[-1].activation is None:
            layers[-1] = _Layer(layers[-1].module, "tanh" if type(module) is th.nn.Tanh else "relu")
        else:
            return None
    return MlpStack(layers, quick=quick) if layers else None


def gradient_of(parameter: th.Tensor) -> th.Tensor:
    """Where the gradient of `parameter` is written."""
    if parameter.grad is None:
        parameter.grad = th.empty_like(parameter)
    return parameter.grad
