"""`out-of-memory`: said by the trainer, the kernel or a command's last lines, and what would need less."""

from __future__ import annotations

import pytest
from msgspec import structs

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.outcome import Failed, Finished, Outcome
from mission_tui.fleet.health.out_of_memory import out_of_memory
from mission_tui.fleet.history.classify import ExitFacts
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.sizes import plan_batch
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Spec, rollout_size

CUDA = "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 7.9 GiB"
JAX = "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 2147483648 bytes."
JAX_ON_CPU = "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 4398046511104 bytes."
TENSORFLOW_ON_CPU = "OOM when allocating tensor with shape[9] and type float on /device:CPU:0 by allocator cpu"
SPEC = Spec(
    preset="p",
    env=EnvSpec(id="CartPole-v1", n_envs=16, n_workers=8),
    ppo=PpoSpec(n_steps=128, batch_size=512, n_epochs=8),
    run=RunSpec(total_timesteps=100_000),
)


def found(
    spec: Spec,
    outcome: Outcome,
    facts: ExitFacts | None = None,
    held: int = 0,
    settled: tuple[int, int] | None = None,
) -> Finding | None:
    return out_of_memory(spec, outcome, facts, attempt=2, update=7, t=100.0, held_bytes=held, settled=settled)


def a_command(*words: str) -> Spec:
    return Spec(preset="command", run=RunSpec(command=("python", "train.py", *words)))


def test_a_gpu_without_memory_asks_for_smaller_minibatches_and_as_many_gradient_steps() -> None:
    """Where they are small already, the GPU is the question."""
    said = found(SPEC, Failed("oom", CUDA))
    assert said is not None
    assert (said.rule, said.severity, said.id, said.attempt) == ("out-of-memory", "critical", "out-of-memory-2-7", 2)
    assert "CUDA out of memory. Tried to allocate 2.00 GiB" in said.sentence
    assert said.advice_set == ("ppo.batch_size=256", "ppo.n_epochs=4")
    assert plan_batch(change(SPEC, said.advice_set)).gradient_steps == plan_batch(SPEC).gradient_steps
    small = found(change(SPEC, ("ppo.batch_size=64",)), Failed("oom", CUDA))
    assert small is not None
    assert small.advice_set == ("run.device=cpu",)


def test_what_the_kernel_ended_asks_for_fewer_environments_and_as_many_transitions() -> None:
    """Workers go on to share the environments evenly; what it held is told where it was seen."""
    said = found(SPEC, Failed("oom", "the kernel ended it for lack of memory", signal=9), held=3 * 2**30)
    assert said is not None
    assert said.sentence.endswith("the kernel ended it for lack of memory; it held 3 GiB at most when it was looked at")
    assert said.advice_set == ("env.n_envs=8", "ppo.n_steps=256")
    assert rollout_size(change(SPEC, said.advice_set)) == rollout_size(SPEC)
    odd = found(structs.replace(SPEC, env=structs.replace(SPEC.env, n_workers=16)), Failed("oom", "MemoryError"))
    assert odd is not None
    assert odd.advice_set == ("env.n_envs=8", "ppo.n_steps=256", "env.n_workers=8")


def test_what_held_ever_more_is_not_told_to_use_fewer_environments() -> None:
    """A leak runs out with any settings; a start, an evaluation beside it, a full GPU and a replay buffer are none."""
    killed = Failed("oom", "the kernel ended it for lack of memory", signal=9)
    said = found(SPEC, killed, held=3 << 30, settled=(2, 1 << 30))
    assert said is not None
    assert said.cause == "it held 1 GiB after update 2, and ever more since then"
    assert said.advice.startswith("look for what keeps growing in its environment")
    assert said.advice_set == ()
    for spec, outcome, held, settled in (
        (SPEC, killed, 3 << 30, None),
        (SPEC, killed, 3 << 30, (2, 2 << 30)),
        (SPEC, killed, 700 << 20, (2, 300 << 20)),
        (SPEC, Failed("oom", CUDA), 3 << 30, (2, 1 << 30)),
        (change(SPEC, ("run.algo=sac", "env.id=Pendulum-v1")), killed, 3 << 30, (2, 1 << 30)),
    ):
        other = found(spec, outcome, held=held, settled=settled)
        assert other is not None
        assert other.advice_set != ()


@pytest.mark.parametrize(
    ("words", "facts", "advice"),
    [
        (("--num-envs", "64"), ExitFacts(signal=9, oom_killed=True), "(run it with --num-envs 32)"),
        (
            ("--batch-size=512",),
            ExitFacts(code=1, last_output=f"Traceback\n{CUDA}\n"),
            "(run it with --batch-size 256)",
        ),
        (
            (),
            ExitFacts(code=1, last_output="MemoryError: Unable to allocate 9 GiB"),
            "in your script: use half the env",
        ),
        ((), ExitFacts(code=1, last_output=CUDA), "in your script: use half the minibatch, or the CPU"),
        ((), ExitFacts(code=1, last_output=JAX), "in your script: use half the minibatch, or the CPU"),
        ((), ExitFacts(code=1, last_output=JAX_ON_CPU), "in your script: use half the env"),
        ((), ExitFacts(code=1, last_output=TENSORFLOW_ON_CPU), "in your script: use half the env"),
        ((), ExitFacts(signal=6, last_output="  what():  std::bad_alloc\n"), "in your script: use half the env"),
    ],
)
def test_a_command_is_judged_by_its_exit_and_its_last_lines(
    words: tuple[str, ...], facts: ExitFacts, advice: str
) -> None:
    """What helps is said by its own flag, halved, or for its script, and never as settings of ours."""
    said = found(a_command(*words), Failed("exit", "exit code 1"), facts)
    assert said is not None
    assert advice in said.advice
    assert said.advice_set == ()
    assert "ppo." not in said.advice + said.cause + said.sentence


def test_any_other_end_is_none_of_it() -> None:
    """Finished, failed of something else, or a word about memory in the log of a command that ended well."""
    assert found(SPEC, Finished("c")) is None
    assert found(SPEC, Failed("nan", "loss is nan"), ExitFacts(code=1)) is None
    assert found(a_command(), Failed("exit", "exit code 1"), ExitFacts(code=1, last_output="KeyError: 'x'")) is None
    segfault = ExitFacts(signal=11, last_output="caught std::bad_alloc")
    assert found(a_command(), Failed("exit", "ended by SIGSEGV"), segfault) is None
    assert found(a_command(), Finished("c"), ExitFacts(code=0, last_output=CUDA)) is None
