"""The two parts of a rollout, stepping the environments and choosing their actions: which of them has become slower,
which of them takes most of the time, and what makes that part cheaper.

On two cores a policy of two layers of 1,024 units chose 1,024 actions in 0.11 s for 8 environments at once, and in
0.04 s for 32: what a choice costs is the pass through the network, hardly how many it is for. With two threads instead
of one it took twice to twenty times as long, while others kept the cores busy.
"""

from __future__ import annotations

from msgspec import Struct

from mission_tui.fleet.health.settings import Settings
from mission_tui.fleet.specs.sizes import WITH_WORKERS

MINOR = 1.15
"""A phase that takes up to this much longer than usual is as usual: healthy runs stay within 15 % of their median."""
LARGE_SHARE = 0.5
"""Of an update's seconds: a part that takes more is what its speed depends on."""
WORTH_SHARING_S = 2e-3
"""A step of all environments from which workers pay: handing it to one of them and back takes 0.1 ms."""
LONG_CHOICE_S = 1e-3
"""A choice of actions that is worth making for more environments at once; a small network takes a tenth."""
MORE = 4

ONE_THREAD, ON_CPU = ("run.threads=1",), ("run.device=cpu",)
Words = tuple[str, str, tuple[str, ...]]
"""A cause, what to do, and the settings that do it."""


class Parts(Struct, frozen=True):
    """Seconds of an update: `env_s` in the environments, `choice_s` until actions were chosen, `update_s` learning."""

    env_s: float
    choice_s: float
    update_s: float


def took(was: float, now: float) -> str:
    """How long something takes now, beside what it took before."""
    return f"{now:.2g} s as before" if now <= MINOR * was else f"{now:.2g} s instead of {was:.2g} s"


def slower(settings: Settings, steps: str, was: Parts, now: Parts, otherwise: str) -> Words:
    """Of a rollout of `steps` that takes longer: by which part, and what helps; `otherwise` where no setting does."""
    env, choice = took(was.env_s, now.env_s), took(was.choice_s, now.choice_s)
    vec, device = in_use(settings)
    if now.env_s - was.env_s >= now.choice_s - was.choice_s:
        cause = f"the environment is slow: {steps} {env}; choosing their actions {choice}"
        if vec == "inline" and (settings.n_envs or 1) > 1:
            return cause, "resume it with environments that are stepped at the same time", (_at_once(settings),)
        worker = ", for one worker that is slow or dead" if vec in ("", *WITH_WORKERS) else ""
        return cause, f"look at what its step does now{worker}; {otherwise}", ()
    cause = f"the policy is slow: choosing the actions of {steps} {choice}; the environment {env}"
    if device == "cuda" and settings.small_net:
        return cause, "resume it on the CPU, which chooses for a small network sooner than a shared GPU", ON_CPU
    if settings.ours and settings.threads not in (None, 1):
        return cause, "resume it with one thread, which waits for no other", ONE_THREAD
    return cause, otherwise, ()


def costly(settings: Settings, parts: Parts) -> Words | None:
    """Of a run that was never faster: the part of its rollout that takes most of the time, where a setting makes that
    cheaper; None where none is known to.
    """
    n_envs, n_steps = settings.n_envs, settings.n_steps
    if not settings.ours or not n_envs or not n_steps:
        return None
    largest, (vec, _) = LARGE_SHARE * (parts.env_s + parts.choice_s + parts.update_s), in_use(settings)
    step_s, choice_s = parts.env_s / n_steps, parts.choice_s / n_steps
    more = () if n_steps % MORE else (f"env.n_envs={n_envs * MORE}", f"ppo.n_steps={n_steps // MORE}")
    if parts.env_s > largest and vec == "inline":
        cause = f"stepping {n_envs} environment{_s(n_envs)} one after another takes {_ms(step_s)} a step"
        # Where the choice was the trainer's own, it has measured that workers do not pay.
        if n_envs > 1 and step_s >= WORTH_SHARING_S and settings.vec == "inline":
            return cause, "resume it with environments that are stepped at the same time", (_at_once(settings),)
        if n_envs == 1 and step_s * MORE >= WORTH_SHARING_S and more:
            advice = f"start it with {MORE} environments that are stepped at the same time, for rollouts as large"
            return f"stepping its only environment takes {_ms(step_s)}", advice, (*more, _at_once(settings))
    if parts.choice_s > largest and choice_s >= LONG_CHOICE_S and more:
        cause = f"the policy takes {_ms(choice_s)} to choose the actions of {n_envs} environment{_s(n_envs)}"
        advice = "choose those of more environments at once, which hardly takes longer, for rollouts as large"
        return cause, advice, more
    return None


def in_use(settings: Settings) -> tuple[str, str]:
    """How environments are stepped and where the policy computes; "" where it is not known what "auto" came to."""
    vec, device = settings.in_use
    return vec or (settings.vec or "").replace("auto", ""), device or (settings.device or "").replace("auto", "")


def _at_once(settings: Settings) -> str:
    return "env.vec=native" if settings.batched else "env.vec=split"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.2g} ms" if seconds < 0.0995 else f"{seconds:.2g} s"


def _s(count: int) -> str:
    return "s" * (count != 1)
