"""A stack of linear layers that writes into memory it already has, forwards and backwards.

Autograd allocates every activation and every gradient anew; beyond a few hundred rows that costs as much as computing
them. The operations, and the layout of their operands, are those autograd would have chosen, so numbers are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch as th

__all__ = ["Tower", "tower_of"]

Activation = Literal["tanh", "relu"] | None


@dataclass(frozen=True, slots=True)
class _Layer:
    module: th.nn.Linear
    activation: Activation


class Tower:
    """Maps (batch, features) to (batch, outputs). What it returns is overwritten by its next call of the same batch."""

    def __init__(self, layers: list[_Layer]) -> None:
        self._layers = layers
        self._transposed = [layer.module.weight.detach().t() for layer in layers]
        self._outputs: dict[int, list[th.Tensor]] = {}
        self._gradients: dict[int, list[th.Tensor]] = {}
        self._features = th.empty(0)

    @th.no_grad()
    def forward(self, features: th.Tensor) -> th.Tensor:
        """Outputs, shape (batch, outputs), outside of autograd."""
        self._features = batch = features
        for layer, weight, room in zip(self._layers, self._transposed, self._rooms(self._outputs), strict=True):
            batch = th.addmm(layer.module.bias, batch, weight, out=room)
            if layer.activation == "tanh":
                batch.tanh_()
            elif layer.activation == "relu":
                batch.relu_()
        return batch

    @th.no_grad()
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
            weight, bias = layer.module.weight, layer.module.bias
            th.mm(gradient.t(), below, out=_gradient_of(weight))
            th.sum(gradient, 0, out=_gradient_of(bias))
            if index:
                gradient = th.mm(gradient, weight, out=rooms[index - 1])

    def _rooms(self, kept: dict[int, list[th.Tensor]]) -> list[th.Tensor]:
        size = len(self._features)
        if size not in kept:
            kept[size] = [self._features.new_empty((size, layer.module.out_features)) for layer in self._layers]
        return kept[size]


def tower_of(modules: Iterable[th.nn.Module]) -> Tower | None:
    """The tower of `modules`; None if there is anything but biased linear layers, tanh and ReLU among them."""
    layers: list[_Layer] = []
    for module in modules:
        if type(module) is th.nn.Linear and module.bias is not None:
            layers.append(_Layer(module, None))
        elif type(module) in (th.nn.Tanh, th.nn.ReLU) and layers and layers[-1].activation is None:
            layers[-1] = _Layer(layers[-1].module, "tanh" if type(module) is th.nn.Tanh else "relu")
        else:
            return None
    return Tower(layers) if layers else None


def _gradient_of(parameter: th.Tensor) -> th.Tensor:
    if parameter.grad is None:
        parameter.grad = th.empty_like(parameter)
    return parameter.grad
