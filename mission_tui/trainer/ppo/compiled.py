"""torch's compiler, for runs that ask for it: loaded, used and done with before the first environment step.

Every shape that a run will meet is compiled in a rehearsal. Afterwards nothing is compiled any more: whatever turned up
all the same would be computed by the uncompiled form, because a compiler that fails mid-run would cost the run.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch as th

from mission_tui.errors import PresetError

__all__ = ["compiled", "compiling", "load_compiler"]

_SHOWN = 160


def load_compiler() -> None:
    """Import the compiler, which takes as long as importing torch, and keep its work in this process."""
    with warnings.catch_warnings():
        # Torch's own modules use what torch has deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        import torch._inductor.compile_fx
        import torch._inductor.config

    # A pool of compilers would stay for as long as the run, each with a torch of its own.
    torch._inductor.config.compile_threads = 1


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, compiled anew for each shape it meets while `compiling`."""
    return th.compile(function, dynamic=False, fullgraph=True)


@contextmanager
def compiling() -> Iterator[Callable[[], float]]:
    """What is called inside is compiled, and nothing after it; gives the seconds since it was entered.

    Raises `PresetError` when the compiler or its C++ compiler fails.
    """
    begun_s = time.perf_counter()
    th.compiler.set_stance("default")
    try:
        yield lambda: time.perf_counter() - begun_s
    except th.OutOfMemoryError:
        raise
    except RuntimeError as error:
        said = next(line.strip() for line in [*str(error).splitlines(), type(error).__name__] if line.strip())
        raise PresetError(
            f"run.compile = true, but torch cannot compile this policy here ({said[:_SHOWN]}); use run.compile = false"
        ) from error
    finally:
        th.compiler.set_stance("eager_on_recompile")
