"""Loading the kernels, and the structures they are called with; kernels.h says what each field is.

They were compiled when the package was built, if there was a C compiler. A library that was compiled from other sources
than those beside it is not used.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, Structure, c_char_p, c_float, c_int, c_int64, c_void_p
from functools import cache
from typing import Any

from mission_tui.errors import PresetError, nearest
from mission_tui.trainer.native.build import HERE, LIBRARY, digest

SWITCH = "MISSION_TUI_KERNELS"
"""`0`: the kernels are not used. One of `SETS`: by no wider instructions than those."""
OFF, SETS = "0", ("base", "avx2", "avx512")
MOST_LAYERS, LANE, BLOCK = 8, 16, 64
CATEGORICAL, GAUSSIAN = 0, 1
ACTIVATIONS = {None: 0, "tanh": 1, "relu": 2}


class Layer(Structure):
    """One linear layer and what follows it."""

    _fields_ = (
        *((name, c_int64) for name in ("inputs", "outputs", "inputs_room", "outputs_room", "activation")),
        *(
            (name, c_void_p)
            for name in (
                "weight",
                "bias",
                "weight_gradient",
                "bias_gradient",
                "packed",
                "padded",
                "packed_bias",
                "weight_sum",
                "bias_sum",
                "output",
                "slope",
            )
        ),
    )


class Net(Structure):
    """A stack of layers."""

    _fields_ = (("depth", c_int64), ("layers", Layer * MOST_LAYERS))


class Plan(Structure):
    """A policy."""

    _fields_ = (
        ("actor", Net),
        ("critic", Net),
        ("head", c_int64),
        ("choices", c_int64),
        ("actions", c_int64),
        ("sizes", c_void_p),
        ("log_std", c_void_p),
        ("log_std_gradient", c_void_p),
        ("features", c_void_p),
        ("critic_features", c_void_p),
        ("twin", c_void_p),
    )


class Rollout(Structure):
    """Transitions, of which minibatches are made."""

    _fields_ = tuple(
        (name, c_void_p) for name in ("observations", "old_values", "old_log_probs", "advantages", "returns", "actions")
    )


class Minibatch(Structure):
    """Transitions to learn from."""

    _fields_ = (("of", c_void_p), ("order", c_void_p), ("rows", c_int64))


class Objective(Structure):
    """The coefficients of one update."""

    _fields_ = (
        ("clip", c_float),
        ("clip_value", c_float),
        ("entropy", c_float),
        ("value", c_float),
        ("normalized", c_int64),
    )


class Losses(Structure):
    """Where the losses are written."""

    _fields_ = (("numbers", c_void_p), ("log_ratios", c_void_p), ("head_entropy", c_void_p))


class Adam(Structure):
    """One step of the optimizer."""

    _fields_ = (
        *((name, c_void_p) for name in ("values", "gradients", "first", "second")),
        ("size", c_int64),
        *((name, c_float) for name in ("max_norm", "rate", "beta1", "beta2", "epsilon", "correction1", "correction2")),
    )


@cache
def compiled_library() -> Any:
    """The library; None if it was not built, or of other sources than those that lie here."""
    try:
        library = ctypes.CDLL(str(HERE / LIBRARY))
        library.mission_tui_compiled_from.restype = c_char_p
        if library.mission_tui_compiled_from().decode() != digest():
            return None
    except (OSError, AttributeError):
        return None
    library.mission_tui_level.argtypes = [c_int]
    library.mission_tui_pack.argtypes = [POINTER(Plan)]
    library.mission_tui_act.argtypes = [POINTER(Plan), c_int64, c_void_p, c_void_p, c_void_p, c_void_p]
    library.mission_tui_value.argtypes = [POINTER(Plan), c_int64, c_void_p, c_void_p]
    library.mission_tui_learn.argtypes = [POINTER(Plan), POINTER(Minibatch), POINTER(Objective), POINTER(Losses)]
    library.mission_tui_descend.argtypes = [POINTER(Adam)]
    library.mission_tui_descend.restype = c_float
    for name in ("pack", "act", "value", "learn"):
        getattr(library, f"mission_tui_{name}").restype = None
    return library


def kernels() -> Any:
    """The library as this process's variables want it now: a fork of the preloader has others than that had.

    None where it is not here or switched off. Raises `PresetError` for a switch that says neither.
    """
    wanted = os.environ.get(SWITCH) or SETS[-1]
    if wanted not in (OFF, *SETS):
        raise PresetError(f"{SWITCH} = {wanted!r} must be one of {', '.join((OFF, *SETS))}{nearest(wanted, SETS)}")
    library = None if wanted == OFF else compiled_library()
    if library is not None:
        library.mission_tui_level(SETS.index(wanted))
    return library


def instruction_set() -> str:
    """By which instructions the kernels compute here; `none` where torch computes everything."""
    library = kernels()
    return "none" if library is None else SETS[library.mission_tui_used()]
