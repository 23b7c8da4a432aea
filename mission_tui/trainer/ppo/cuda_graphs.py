"""What a card does again and again with the same shapes is captured once as a CUDA graph, and replayed.

A gradient step of an MLP policy is some 200 kernels. An H100 computes them in an eighth of the time that Python takes
to ask for them one by one; a graph asks once (docs/gpu.md has what was measured). The kernels and their order are the
same, so the numbers are: what changes from step to step is written into tensors that the graph reads.

https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import torch as th

T = TypeVar("T")


class Graph(Protocol):
    """What `captured` returns."""

    def replay(self) -> None:
        """Do again what was captured; what it returned then is overwritten."""


def captured(work: Callable[[], T]) -> tuple[Graph, T]:
    """Capture `work`, which does not run now: what it returns has its numbers after a replay.

    Raises `RuntimeError` where it does what cannot be captured, such as waiting for the card.
    """
    graph = th.cuda.CUDAGraph()
    # Other threads of the trainer may ask the driver for memory meanwhile.
    with th.cuda.graph(graph, capture_error_mode="thread_local"):
        returned = work()
    return graph, returned


class GraphedCall(Generic[T]):
    """`work`, called again and again: as it is at first, so that all it needs is there, then captured, then replayed.

    It reads and writes the same tensors at each call, and what a replay returns is overwritten by the next one. Work
    that cannot be captured is called as it is from then on, and a warning says why.
    """

    def __init__(self, what: str, work: Callable[[], T]) -> None:
        self._what, self._work = what, work
        self._warm = self._refused = False
        self._graph: tuple[Graph, T] | None = None

    def __call__(self) -> T:
        if self._graph is None:
            if self._refused or not self._warm:
                self._warm = True
                return self._work()
            try:
                self._graph = captured(self._work)
            except RuntimeError as error:
                self._refused = True
                said = " ".join(str(error).split())[:200]
                warnings.warn(f"no CUDA graph of {self._what}, which goes on without: {said}", RuntimeWarning, 2)
                return self._work()
        graph, returned = self._graph
        graph.replay()
        return returned


class GraphedCalls(Generic[T]):
    """A `GraphedCall` for each shape, as long as what else it depends on stays as it is."""

    def __init__(self) -> None:
        self._calls: dict[Any, T] = {}
        self._terms: Any = None

    def of(self, shape: Any, terms: Any, make: Callable[[], T]) -> T:
        """That of `shape`, made anew where it is the first one or `terms` are other ones than at the last call."""
        if terms != self._terms:
            self._calls, self._terms = {}, terms
        if shape not in self._calls:
            self._calls[shape] = make()
        return self._calls[shape]
