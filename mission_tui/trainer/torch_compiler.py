"""Torch's compiler: left out where nothing is compiled, and for runs that ask for it done with before the first step.

Importing the compiler takes as long as importing torch, and the first optimizer does it although nothing is compiled.
Whatever torch would load late is loaded by a rehearsal instead: an upgrade under a live run must not reach it.

A run that asks for the compiler has every shape that it will meet compiled in a rehearsal. Afterwards nothing is
compiled any more: whatever turned up all the same would be computed by the uncompiled form, because a compiler that
fails mid-run would cost the run.
"""

from __future__ import annotations

import functools
import os
import stat
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

import safetensors.torch
import torch as th
from torch.optim import Optimizer

from mission_tui.errors import PresetError
from mission_tui.records.runs_roots import others_may_write
from mission_tui.run_module import looking_elsewhere

_CACHE_DIR = "TORCHINDUCTOR_CACHE_DIR"
F = TypeVar("F", bound=Callable[..., Any])
_SHOWN = 160


@functools.cache
def use_plain_optimizers() -> None:
    """Make torch's optimizers work without ``torch._dynamo`` and without a GPU's driver; the numbers stay the same.

    Torch 2.13 wraps their methods (`torch._compile`, `torch.optim.optimizer._use_grad_for_differentiable`) to be
    skipped while something is traced, and these wrappers import the compiler. At each step they ask whether CUDA
    captures it: of no use here, and it begins a thread of the driver even where all is on the CPU, while a process with
    threads cannot be forked. A torch that does either differently is left as it is.
    """
    for name in ("_accelerator_graph_capture_health_check", "_cuda_graph_capture_health_check"):
        if hasattr(Optimizer, name):
            setattr(Optimizer, name, _ask_nobody)
    kinds = [kind for kind in vars(th.optim).values() if isinstance(kind, type) and issubclass(kind, Optimizer)]
    for kind in kinds:
        for name, method in list(vars(kind).items()):
            if isinstance(method, FunctionType) and "torch._dynamo" in method.__code__.co_names:
                plain = method.__wrapped__  # type: ignore[attr-defined]
                setattr(kind, name, _stepping(plain) if name == "step" else plain)


def _ask_nobody(_optimizer: Optimizer) -> None:
    pass


def load_everything() -> None:
    """One gradient step and one saved tensor, thrown away: torch and safetensors import on first use what it takes."""
    load_without_backward()
    (th.nn.Parameter(th.zeros(1)) * 1.0).sum().backward()  # type: ignore[no-untyped-call]


@functools.cache
def load_without_backward() -> None:
    """All of it that starts no thread: where there is a GPU, `backward` may. A fork of who did it has it done."""
    parameter = th.nn.Parameter(th.zeros(1))
    parameter.grad = th.zeros(1)
    optimizer = th.optim.Adam([parameter])
    th.nn.utils.clip_grad_norm_([parameter], 1.0)
    optimizer.step()
    optimizer.zero_grad()
    optimizer.load_state_dict(optimizer.state_dict())
    safetensors.torch.load(safetensors.torch.save({"parameter": parameter.detach()}))


def _stepping(step: F) -> F:
    """`step` with gradients recorded only where the optimizer is differentiable, as torch's own wrapper has it."""

    @functools.wraps(step)
    def stepping(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        with th.set_grad_enabled(self.defaults["differentiable"]):
            return step(self, *args, **kwargs)

    return stepping  # type: ignore[return-value]


def load_compiler() -> None:
    """Import the compiler, which takes as long as importing torch, and keep its work in this process."""
    keep_cache_private()
    with warnings.catch_warnings():
        # Torch's own modules use what torch has deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        import torch._inductor.compile_fx
        import torch._inductor.config

    # A pool of compilers would stay for as long as the run, each with a torch of its own.
    torch._inductor.config.compile_threads = 1


def keep_cache_private() -> None:
    """Have torch keep what it compiled in a folder where nobody else can put code that it would load.

    Its own (2.13) is one of `/tmp` whose name anybody can foretell, and it takes one that is there, whoever made it.
    """
    from torch._inductor.runtime import cache_dir_utils

    folder = Path(cache_dir_utils.default_cache_dir()).absolute()
    if os.environ.get(_CACHE_DIR, str(folder)) != str(folder):
        return  # the person's own word, or ours of before
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    facts = folder.lstat()
    ours = stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not others_may_write(facts)
    os.environ[_CACHE_DIR] = private = str(folder) if ours else tempfile.mkdtemp(prefix="mission-tui-compiled-")
    if not ours:
        # Headers that were compiled beforehand lie in torch's own folder whatever the variable says.
        import torch._inductor.codecache as loaded

        cache_dir_utils.default_cache_dir = loaded.default_cache_dir = lambda: private
        loaded._HEADER_DIR = f"{private}/precompiled_headers"
        loaded._HEADER_LOCK_DIR = f"{private}/precompiled_headers/locks"


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, compiled anew for each shape it meets while `compiling`."""
    return th.compile(function, dynamic=False, fullgraph=True)


@contextmanager
def compiling() -> Iterator[Callable[[], float]]:
    """What is called inside is compiled, and nothing after it; gives the seconds since it was entered.

    Raises `PresetError` when the compiler or its C++ compiler fails.
    """
    begun_s = time.perf_counter()
    keep_cache_private()
    th.compiler.set_stance("default")
    try:
        with looking_elsewhere():
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
