"""`out-of-memory`: an attempt that ended for lack of memory, and the settings that need less of it.

No row shows it. The trainer says so itself where torch or Python raised; of one that the kernel ended its keeper knows,
and of a command the last lines that it wrote. What is advised keeps what an update learns from as it is: as many
transitions and as many gradient steps.
"""

from __future__ import annotations

import signal

from mission_tui.fleet.events.findings import OUT_OF_MEMORY as ID
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.outcome import NO_GPU_MEMORY, NO_MEMORY, Failed, Outcome, lacks_gpu_memory
from mission_tui.fleet.health.phrases import flag_value, for_strangers, rounded
from mission_tui.fleet.health.settings import settings_of
from mission_tui.fleet.history.classify import ExitFacts
from mission_tui.fleet.specs.algorithm import replay_buffer_of
from mission_tui.fleet.specs.sb3_algorithms import other_algorithm
from mission_tui.fleet.specs.sizes import nearby_workers, plan_batch, shares_of
from mission_tui.fleet.specs.spec import Spec, rollout_size
from mission_tui.fleet.text import clean

__all__ = ["ID", "out_of_memory"]

SMALL_BATCH = 64
"""A minibatch that is smaller still saves next to nothing beside the network itself."""
GIB = 2.0**30
_GREW_TIMES, _GREW_BYTES = 2.0, 512 << 20
"""Nets, rollout and environments are there after an update; a process for evaluations that comes later takes less."""
SENTENCE_CHARACTERS = 300

Advice = tuple[str, tuple[str, ...]]


def out_of_memory(
    spec: Spec,
    outcome: Outcome,
    facts: ExitFacts | None,
    *,
    attempt: int,
    update: int,
    t: float,
    held_bytes: int = 0,
    settled: tuple[int, int] | None = None,
) -> Finding | None:
    """The finding about an attempt that ended so at unix time `t` after `update` updates; None of any other end.

    `held_bytes` is the most memory that it was seen to hold, 0 where it was not looked at; `settled` is an early update
    of it, with the bytes that it held then.
    """
    if not isinstance(outcome, Failed):
        return None
    said = _said(outcome, facts)
    if said is None:
        return None
    on_gpu = lacks_gpu_memory(said)
    grew = "" if on_gpu or settled is None else _growth(spec, settled, held_bytes)
    if grew:
        advice, assignments = _KEEPS_MEMORY
    elif spec.run.command is None:
        advice, assignments = _on_gpu(spec) if on_gpu else _on_machine(spec)
    else:
        advice, flags = _of_command(spec, on_gpu=on_gpu)
        advice, assignments = for_strangers(advice, flags, settings_of(spec)), ()
    held = (
        f"; it held {rounded(held_bytes / GIB)} GiB at most when it was looked at" if held_bytes and not on_gpu else ""
    )
    return Finding(
        id=f"{ID}-{attempt}-{update}",
        rule=ID,
        severity="critical",
        first_update=update,
        last_update=update,
        sentence=f"it ran out of memory on the {'GPU' if on_gpu else 'machine'}: {said}{held}",
        cause=grew or _needs(spec, on_gpu=on_gpu),
        advice=advice,
        advice_set=assignments,
        first_t=t,
        last_t=t,
    )


def _said(outcome: Failed, facts: ExitFacts | None) -> str | None:
    """The words about the lack of memory; None where there are none."""
    if outcome.kind == "oom":
        return clean(outcome.cause, SENTENCE_CHARACTERS)
    if facts is None:
        return None
    if facts.oom_killed:
        return "the kernel ended it"
    # What C++ does with an error that nobody caught is SIGABRT.
    if not facts.code and facts.signal != signal.SIGABRT:
        return None
    signs = (*NO_GPU_MEMORY, *NO_MEMORY)
    lines = reversed(facts.last_output.splitlines())
    return next((clean(line, SENTENCE_CHARACTERS) for line in lines if any(sign in line for sign in signs)), None)


_KEEPS_MEMORY: Advice = (
    (
        "look for what keeps growing in its environment, wrappers or callbacks: smaller settings only delay it; "
        "until it is found, a resume begins with free memory again"
    ),
    (),
)


def _growth(spec: Spec, settled: tuple[int, int], held_bytes: int) -> str:
    """That it held ever more, which no setting explains; empty where it did not, or a replay buffer filled."""
    update, early_bytes = settled
    grew = held_bytes >= _GREW_TIMES * early_bytes and held_bytes - early_bytes >= _GREW_BYTES
    if not grew or (spec.run.command is None and replay_buffer_of(spec) is not None):
        return ""
    return f"it held {rounded(early_bytes / GIB)} GiB after update {update:,}, and ever more since then"


def _needs(spec: Spec, *, on_gpu: bool) -> str:
    if spec.run.command is not None:
        return "what it needs is decided in its script, and other programs may have held the rest"
    if on_gpu:
        return f"an update works on minibatches of {plan_batch(spec).batch_size:,} transitions at a time"
    if (buffer := replay_buffer_of(spec)) is not None:
        return f"a replay buffer of {buffer.buffer_size:,} transitions is held, which fills while it trains"
    return f"{spec.env.n_envs:,} environments and {rollout_size(spec):,} transitions a rollout are held"


def _on_gpu(spec: Spec) -> Advice:
    if other_algorithm(spec.run.algo) is not None:
        return "train it on the CPU, or when nothing else is on this GPU", ("run.device=cpu",)
    plan = plan_batch(spec)
    half = plan.batch_size // 2
    if half < SMALL_BATCH or plan.batch_size % 2:
        return "train it on the CPU, or when nothing else is on this GPU", ("run.device=cpu",)
    epochs = max(1, plan.n_epochs // 2)
    return (
        "resume it with minibatches half as large, gone through half as often",
        (f"ppo.batch_size={half}", f"ppo.n_epochs={epochs}"),
    )


def _on_machine(spec: Spec) -> Advice:
    if (buffer := replay_buffer_of(spec)) is not None:
        key = f"{spec.run.algo}.buffer_size={buffer.buffer_size // 2}"
        return "resume it with a replay buffer half as large, which keeps its newest transitions", (key,)
    n_envs, n_steps = spec.env.n_envs, spec.ppo.n_steps
    fewer = n_envs // 2
    if fewer == 0:
        return "run it when less else runs here; it has one environment, which is all that it holds", ()
    if other_algorithm(spec.run.algo) is not None:
        return "resume it with half the environments", (f"env.n_envs={fewer}",)
    assignments: tuple[str, ...] = (f"env.n_envs={fewer}", f"ppo.n_steps={n_envs * n_steps // fewer}")
    vec, n_workers = spec.env.vec, spec.env.n_workers
    if n_workers is not None and fewer % shares_of(vec, n_workers):
        near = nearby_workers(vec, fewer, n_workers)
        assignments = (*assignments, f"env.n_workers={near[0]}" if near else "env.vec=inline")
    return "resume it with half the environments, each stepped twice as long", assignments


def _of_command(spec: Spec, *, on_gpu: bool) -> Advice:
    """By its own flag, halved, where it was started with one; else in words."""
    names = ("batch_size", "minibatch_size") if on_gpu else ("num_envs", "n_envs", "buffer_size")
    for name in names:
        value = flag_value(spec.run.command or (), (name,))
        if value.isdigit() and int(value) > 1:
            return f"halve what it holds at a time, which was {value}", (f"{name}={int(value) // 2}",)
    what = "use half the minibatch, or the CPU" if on_gpu else "use half the environments, or a smaller buffer"
    return f"in your script: {what}", ()
