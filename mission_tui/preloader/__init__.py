"""A fork server: a process that has imported what every trainer imports, and forks keepers and trainers off itself on
request.

It has built nothing and holds no lock; its one socket leads to the supervisor that started it. What is forked here is
what the cold path starts (`keeper/child.py`), with the same words, variables, limits and descriptors.
"""

from __future__ import annotations

PADDING = "MISSION_TUI_PADDING"
"""Begins the names of variables that are there for their length: a fork puts its own variables into that memory."""

ONES_OWN = frozenset({"PYTHONFAULTHANDLER", "PYTHONUNBUFFERED", "PWD", "OLDPWD", "SHLVL", "_"})
"""Given to each trainer anew when it is forked, or of no consequence."""

AT_LOAD = (
    "PYTHON", "LD_", "GLIBC_", "MALLOC_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "NUMEXPR_", "VECLIB_", "BLIS_",
    "NPY_", "TORCH", "PYTORCH_", "ATEN_", "C10_", "DNNL_", "ONEDNN_", "LC_", "LANG", "LOCPATH", "CUBLAS_", "NCCL_",
)  # fmt: skip
"""Variables that the interpreter and native libraries read while they are loaded: nobody can see which of them."""


def read_at_load(name: str) -> bool:
    """Whether a library may have read the variable while it was loaded, so that it cannot be given later."""
    return name.startswith(AT_LOAD) and name not in ONES_OWN
