"""The values that a tune tries for each knob, beside the present settings: only those that a launch would accept and,
but for the shape of a rollout, only those that do not change what is learned.

Workers share environments evenly, so their numbers are divisors of `env.n_envs`; about as many as there are cores are
worth a probe. Threads and compiling reorder sums of float32; bf16 rounds each layer's product to 8 bits, which SB3
never does, and is tried on request only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from mission_tui.errors import MissionError
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.sizes import WITH_WORKERS, divisors, nearby_divisors, plan_batch
from mission_tui.fleet.specs.spec import Spec, rollout_size
from mission_tui.fleet.tuning.record import Knob, Resolved

SHAPE_FACTORS = (0.25, 0.5, 2.0, 4.0)
BUFFER_WITHIN = 2.0
STEPS_WITHIN = 2.0
FEWEST_STEPS = 16
"""Shorter pieces of an episode are mostly the critic's guess of what follows."""


class Candidate(Struct, frozen=True):
    """Settings as `--set` words over the preset (none: the preset's own), and the spec that they make."""

    words: tuple[str, ...]
    spec: Spec

    @property
    def label(self) -> str:
        """How people see it."""
        return label_of(self.words)


class Refused(Struct, frozen=True):
    """Words that were not tried, and the sentence that says why."""

    words: tuple[str, ...]
    why: str


def label_of(words: Sequence[str]) -> str:
    """The words as people say them: `4 workers, 2 threads`; the preset's own have none."""
    settings = dict(word.split("=", 1) for word in words)
    said = [_said(key, value, settings) for key, value in settings.items()]
    return ", ".join(each for each in said if each) or "as it is"


def _said(key: str, value: str, settings: Mapping[str, str]) -> str:
    match key:
        case "env.vec":
            return value if value == "split" or settings.get("env.n_workers", "none") == "none" else ""
        case "env.n_workers":
            return "" if value == "none" else f"{value} worker{'' if value == '1' else 's'}"
        case "run.threads":
            return f"{value} thread{'' if value == '1' else 's'}"
        case "run.compile":
            return "compiled" if value == "true" else "not compiled"
        case "run.precision":
            return value
        case _:
            return f"{key.partition('.')[2]} {value}"


def challengers(
    knob: Knob, own: Spec, held: Sequence[str], cores: int, resolved: Resolved
) -> tuple[tuple[Candidate, ...], tuple[Refused, ...]]:
    """What `knob` has beside the words `held` over the spec `own`, and what of it must not be tried.

    `resolved` is what the preset's own settings turned out to be: what would only repeat them is left out.
    """
    stands = change(own, held)
    found: list[Candidate] = []
    refused: list[Refused] = []
    for more in _words(knob, stands, cores):
        words = _joined(held, more)
        try:
            spec = change(own, words)
        except MissionError as error:
            refused.append(Refused(words, str(error)))
            continue
        if spec == stands or any(spec == each.spec for each in found) or _same(knob, stands, spec, resolved):
            continue
        if knob == "shape" and (why := shape_refusal(own, spec)) is not None:
            refused.append(Refused(words, why))
            continue
        found.append(Candidate(words, spec))
    return tuple(found), tuple(refused)


def _joined(held: Sequence[str], more: Sequence[str]) -> tuple[str, ...]:
    """Both, the later word for a key counting."""
    return tuple({word.partition("=")[0]: word for word in (*held, *more)}.values())


def _words(knob: Knob, spec: Spec, cores: int) -> Iterator[tuple[str, ...]]:
    match knob:
        case "vec":
            for kind in ("native", "inline"):
                yield f"env.vec={kind}", "env.n_workers=none"
            for count in _divisors_near(spec.env.n_envs, (2, cores // 2, cores), cores):
                yield "env.vec=split", f"env.n_workers={count - 1}"
            for count in _divisors_near(spec.env.n_envs, (2, cores, 2 * cores), max(2, 2 * cores)):
                yield "env.vec=workers", f"env.n_workers={count}"
        case "threads":
            for threads in _thread_counts(cores):
                yield (f"run.threads={threads}",)
        case "compile":
            yield (f"run.compile={'false' if spec.run.compile else 'true'}",)
        case "precision":
            yield (f"run.precision={'fp32' if spec.run.precision == 'bf16' else 'bf16'}",)
        case "shape":
            yield from _shapes(spec)


def _divisors_near(n_envs: int, wanted: Sequence[int], most: int) -> list[int]:
    """Numbers of processes that share the environments evenly; one alone would only be further away."""
    near = {divisor for count in wanted if count >= 2 for divisor in nearby_divisors(n_envs, count)}
    return sorted(count for count in near if 2 <= count <= most)


def _thread_counts(cores: int) -> list[int]:
    powers = [2**power for power in range(cores.bit_length()) if 2**power <= cores]
    return sorted({*powers, cores})


def _shapes(spec: Spec) -> Iterator[tuple[str, ...]]:
    """Wider and shorter rollouts of the same size, larger ones, and other minibatches that divide them."""
    n_envs, n_steps, batch = spec.env.n_envs, spec.ppo.n_steps, plan_batch(spec).batch_size
    for factor in SHAPE_FACTORS:
        envs, steps = round(n_envs * factor), round(n_steps / factor)
        if envs >= 1 and steps >= 1 and envs * steps == n_envs * n_steps:
            yield f"env.n_envs={envs}", f"ppo.n_steps={steps}", f"ppo.batch_size={batch}"
    yield f"env.n_envs={2 * n_envs}", f"ppo.n_steps={n_steps}", f"ppo.batch_size={batch}"
    for size in (batch // 2, batch * 2):
        if size in divisors(n_envs * n_steps) and size >= 2:
            yield f"env.n_envs={n_envs}", f"ppo.n_steps={n_steps}", f"ppo.batch_size={size}"


def _same(knob: Knob, stands: Spec, spec: Spec, resolved: Resolved) -> bool:
    """Whether `spec` is what `stands` turns out to be anyway, where that leaves the knob to the trainer."""
    if knob == "threads":
        return stands.run.threads is None and spec.run.threads == resolved.threads
    if knob != "vec":
        return False
    n_workers = spec.env.n_workers if spec.env.vec in WITH_WORKERS else None
    left_open = stands.env.vec == "auto" or (stands.env.vec in WITH_WORKERS and stands.env.n_workers is None)
    if left_open:
        return (spec.env.vec, n_workers) == (resolved.vec, resolved.n_workers)
    return spec.env.vec == stands.env.vec and spec.env.vec not in WITH_WORKERS


# How far a shape may be from the preset's: wider rollouts are faster for free only while each sample is learned from
# about as often, out of about as large a buffer.
def steps_per_sample(spec: Spec) -> float:
    """Gradient steps per update and transition of it: what decides how far a sample moves the policy."""
    return plan_batch(spec).gradient_steps / rollout_size(spec)


def shape_refusal(own: Spec, other: Spec) -> str | None:
    """Why `other` is too far from `own` to be its shape for another machine; None where it is not."""
    buffer, size = rollout_size(own), rollout_size(other)
    if not 1.0 / BUFFER_WITHIN <= size / buffer <= BUFFER_WITHIN:
        return f"its rollout of {size:,} transitions is beyond {BUFFER_WITHIN:g} times the preset's {buffer:,}"
    ratio = steps_per_sample(other) / steps_per_sample(own)
    # A hair beyond the limit is rounding.
    if not 0.999 / STEPS_WITHIN <= ratio <= 1.001 * STEPS_WITHIN:
        return f"it takes {ratio:.2g} times the preset's gradient steps per sample, beyond {STEPS_WITHIN:g} times"
    batch = plan_batch(other).batch_size
    if size % batch:
        return f"its minibatch of {batch:,} does not divide its rollout of {size:,}"
    if other.ppo.n_steps < min(FEWEST_STEPS, own.ppo.n_steps):
        return f"its {other.ppo.n_steps} steps of each environment are fewer than {FEWEST_STEPS}"
    return None
