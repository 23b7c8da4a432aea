"""A card that is not there: tensors that say they are on `cuda:0`, hold their numbers here, and refuse to be mixed.

What runs under it runs as on a card as far as devices go: whatever meets a tensor of the host in one operation, is read
without a copy to the host, or is made on the wrong side, is an error. Numbers and random draws are the CPU's, bit for
bit, so a training here must come out as one there. torch itself believes that all is on the host, because autograd
would ask a real device for its stream.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch as th
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from mission_tui.trainer.ppo import cuda_graphs

__all__ = ["CARD", "MixedDevicesError", "OnCard", "stand_in_cuda"]

CARD = th.device("cuda:0")
_INDEXED = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index"}
"""`x[i]`: a card copies such indices of the host by itself, and no others."""
_MAKES_ITS_OWN = {th._C._nn.pad_sequence}
"""What makes its result without asking us where."""


class MixedDevicesError(RuntimeError):
    """Tensors of one operation are on different sides."""


class OnCard(th.Tensor):
    """A tensor of the card; `held` are its numbers."""

    held: th.Tensor

    @staticmethod
    def __new__(cls, held: th.Tensor, requires_grad: bool = False) -> OnCard:
        made = th.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            layout=held.layout,
            device=held.device,
            requires_grad=requires_grad,
        )
        made.held = held
        return made

    @property
    def device(self) -> th.device:  # type: ignore[override]
        return CARD

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return True

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func == th.Tensor.data.__set__:  # type: ignore[attr-defined]
            # torch hands over shape and strides, and knows nothing of `held`.
            target, value = args
            if isinstance(target, OnCard) != isinstance(value, OnCard):
                raise MixedDevicesError(f"`.data` of a tensor on {target.device} is set to one on {value.device}")
            target.held = value.held
        with th._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        name = func._schema.name
        flat, spec = tree_flatten((args, kwargs or {}))
        tensors = [each for each in flat if isinstance(each, th.Tensor)]
        # A single number of the host may take part in what a card computes.
        guests = [each for each in tensors if not isinstance(each, OnCard) and each.dim() > 0]
        if guests and name != "aten::copy_" and name not in _INDEXED:
            raise MixedDevicesError(f"{name}: tensors on cuda:0 and on cpu, that of shape {tuple(guests[0].shape)}")
        held_args, held_kwargs = tree_unflatten([_held(each) for each in flat], spec)
        known = {id(_held(each)): each for each in tensors}
        on_card = name != "aten::copy_" or isinstance(args[0], OnCard)
        return tree_map(lambda each: _given(each, known, on_card=on_card), func(*held_args, **held_kwargs))

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"OnCard({self.held!r})"

    def numpy(self, **_: Any) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first")

    def __array__(self, *_: Any, **__: Any) -> Any:
        return self.numpy()

    def tolist(self) -> Any:
        return self.held.tolist()

    def __deepcopy__(self, memo: dict[int, Any]) -> th.Tensor:
        copied = OnCard(self.held.detach().clone(), self.requires_grad)
        return th.nn.Parameter(copied, self.requires_grad) if isinstance(self, th.nn.Parameter) else copied


def _held(each: Any) -> Any:
    return each.held if isinstance(each, OnCard) else each


def _given(each: Any, known: dict[int, Any], *, on_card: bool) -> Any:
    """What was written in place is the tensor that came in; all else is new."""
    if not isinstance(each, th.Tensor):
        return each
    if id(each) in known:
        return known[id(each)]
    return OnCard(each) if on_card else each


class _Places(TorchFunctionMode):
    """Where tensors are made, and how they get from one side to the other."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is th.Tensor.cpu:
            return _moved(args[0], to_card=False)
        if func is th.Tensor.cuda:
            return _moved(args[0], to_card=True)
        if func is th.Tensor.to:
            return self._to(*args, **kwargs)
        kwargs.pop("pin_memory", None)
        if func in _MAKES_ITS_OWN and all(isinstance(each, OnCard) for each in args[0]):
            return OnCard(func([each.held for each in args[0]], *args[1:], **kwargs))
        if "device" not in kwargs or kwargs["device"] is None:
            return func(*args, **kwargs)
        to_card = th.device(kwargs.pop("device")).type == "cuda"
        if func in (th.as_tensor, th.tensor) and isinstance(args[0], th.Tensor):
            return _moved(args[0] if not kwargs else args[0].to(**kwargs), to_card=to_card)
        made = func(*args, **kwargs)
        return _moved(made, to_card=to_card) if isinstance(made, th.Tensor) else made

    def _to(self, tensor: th.Tensor, *args: Any, **kwargs: Any) -> th.Tensor:
        places = [each for each in (*args, kwargs.pop("device", None)) if isinstance(each, str | th.device)]
        rest = [each for each in args if not isinstance(each, str | th.device) and each is not None]
        places += [each.device for each in rest if isinstance(each, th.Tensor)]
        rest = [each for each in rest if not isinstance(each, th.Tensor) and not isinstance(each, bool)]
        kwargs.pop("non_blocking", None)
        kinds = {name: value for name, value in kwargs.items() if value is not None}
        done = tensor.to(*rest, **kinds) if rest or kinds else tensor
        return _moved(done, to_card=th.device(places[0]).type == "cuda") if places else done


class _Across(th.autograd.Function):
    """From one side to the other, gradients the way back."""

    @staticmethod
    def forward(ctx: Any, tensor: th.Tensor) -> th.Tensor:
        ctx.came_from_card = isinstance(tensor, OnCard)
        held = _held(tensor).detach().clone()
        return held if ctx.came_from_card else OnCard(held)

    @staticmethod
    def backward(ctx: Any, gradient: th.Tensor) -> th.Tensor:
        return _moved(gradient, to_card=ctx.came_from_card)


def _moved(tensor: th.Tensor, *, to_card: bool) -> th.Tensor:
    if isinstance(tensor, OnCard) == to_card:
        return tensor
    if tensor.is_leaf or not th.is_grad_enabled():
        held = _held(tensor).detach().clone()
        return OnCard(held, tensor.requires_grad) if to_card else held.requires_grad_(tensor.requires_grad)
    return _Across.apply(tensor)  # type: ignore[no-untyped-call,no-any-return]


class _Tape(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A CUDA graph that is not one: the same operations on the same tensors again, and nothing of Python."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._done: list[tuple[Any, Any, Any, Any]] = []
        self._fresh = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        across = {isinstance(each, OnCard) for each in args[:2]} if func._schema.name == "aten::copy_" else {True}
        if func._schema.name == "aten::_local_scalar_dense" or len(across) > 1:
            raise RuntimeError(f"{func}: operation not permitted when stream is capturing")
        returned = func(*args, **(kwargs or {}))
        self._done.append((func, args, kwargs or {}, returned))
        return returned

    def replay(self) -> None:
        if self._fresh:  # where a card captures, here the work was done
            self._fresh = False
            return
        for func, args, kwargs, returned in self._done:
            pairs = zip(tree_leaves(func(*args, **kwargs)), tree_leaves(returned), strict=True)
            for new, kept in pairs:
                if isinstance(new, th.Tensor) and _held(new).data_ptr() != _held(kept).data_ptr():
                    _held(kept).copy_(_held(new))


def _captured(work: Callable[[], Any]) -> tuple[_Tape, Any]:
    with _Tape() as tape:
        returned = work()
    return tape, returned


@contextmanager
def stand_in_cuda() -> Iterator[None]:
    """torch as on a machine with one card."""
    importlib.import_module("torch._dynamo")  # it lists torch's functions by their objects, and must see the real ones
    with ExitStack() as stack:
        for name, value in _CUDA.items():
            stack.enter_context(mock.patch.object(th.cuda, name, value))
        stack.enter_context(mock.patch.object(cuda_graphs, "captured", _captured))
        stack.enter_context(mock.patch.object(th.backends.cudnn, "is_acceptable", return_value=False))
        # A module's parameters change places with those of the card, so that an optimizer that has them keeps them.
        stack.callback(th.__future__.set_swap_module_params_on_conversion, False)
        th.__future__.set_swap_module_params_on_conversion(True)
        stack.enter_context(_Places())
        yield


def _nothing(*_: Any, **__: Any) -> None:
    return None


_CUDA: dict[str, Callable[..., Any]] = {
    "is_available": lambda: True,
    "device_count": lambda: 1,
    "synchronize": _nothing,
    "get_device_capability": lambda *_: (9, 0),
    "get_device_name": lambda *_: "no card",
    "get_rng_state": lambda *_: th.get_rng_state(),
    "set_rng_state": lambda state, *_: th.set_rng_state(state),
    "max_memory_reserved": lambda *_: 0,
}
