"""What the fields of a spec must be to one another, beyond what each may be alone, and what it may say about whose
program and Python runs: refusals with the nearest valid value, and cautions about what will run but not as one might
think.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from mission_tui.errors import nearest
from mission_tui.fleet.specs import algorithm
from mission_tui.fleet.specs.health_file import contradictions
from mission_tui.fleet.specs.quantity import format_quantity, parse_goal
from mission_tui.fleet.specs.sb3_algorithms import other_algorithm
from mission_tui.fleet.specs.schema import plain_key
from mission_tui.fleet.specs.secrecy import is_secret
from mission_tui.fleet.specs.sizes import WITH_WORKERS, nearby_workers, plan_batch, pressure_caution, shares_of
from mission_tui.fleet.specs.spec import LAUNCHERS, EnvSpec, PpoSpec, RunSpec, Schedule, SlurmSpec, Spec, rollout_size

LARGEST_ROLLOUT = 2**31 - 1
_DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d{1,3})?", re.ASCII)
TRAINERS_OWN = ("duration_s", "device", "auto_scale", "engine", "precision", "compile", "tf32", "callbacks")
"""Fields of `run` that only the built-in trainer obeys."""

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""By which the libraries below torch and NumPy are told how many threads to use."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OURS = "MISSION_TUI_"
_DEFAULT = RunSpec()


class Violation(Struct, frozen=True):
    """A contradiction between `keys` (dotted, the one to change first): one sentence with the nearest valid value."""

    keys: tuple[str, ...]
    sentence: str


def violations(spec: Spec) -> Iterator[Violation]:
    """Everything that keeps `spec` from being trained, whatever the machine."""
    for keys, sentence in _program_complaints(spec):
        yield Violation(keys, sentence)
    if spec.run.goal is not None:
        try:
            parse_goal(spec.run.goal)
        except ValueError as error:
            yield Violation(("run.goal",), str(error))
    if spec.run.track_checkpoints and spec.run.track in (None, "tensorboard"):
        near = "run.track = 'wandb', 'mlflow' or 'trackio'"
        said = f"run.track_checkpoints = true needs a tracker that takes files: {near}"
        yield Violation(("run.track_checkpoints", "run.track"), said)
    if spec.run.command is None:
        yield from _of_training(spec)
    for sentence in contradictions(spec.keep.health, "keep.health."):
        yield Violation(("keep.health",), sentence)


def _of_training(spec: Spec) -> Iterator[Violation]:
    yield from _budget(spec)
    yield from _workers(spec)
    for keys, sentence in algorithm.complaints_about_unused_tables(spec):
        yield Violation(keys, sentence)
    if (other := other_algorithm(spec.run.algo)) is None:
        yield from _rollout(spec)
        yield from _schedules(spec)
        yield from _policy(spec)
        yield from _engine(spec)
    else:
        for keys, sentence in algorithm.other_complaints(spec, other):
            yield Violation(keys, sentence)
    if spec.keep.checkpoint.replay_buffer is not None and algorithm.replay_buffer_of(spec) is None:
        yield Violation(
            ("keep.checkpoint.replay_buffer", "run.algo"),
            f"keep.checkpoint.replay_buffer has no effect with {algorithm.algorithm_name(spec)}, which has none; "
            "leave it out",
        )
    if not _DEVICE.fullmatch(spec.run.device):
        hint = nearest(spec.run.device[:20], ("auto", "cpu", "cuda", "cuda:0", "mps"))
        yield Violation(
            ("run.device",),
            f"run.device = {format_quantity(spec.run.device)} must be auto, cpu, cuda, cuda:N or mps{hint}",
        )


def cautions(spec: Spec) -> tuple[str, ...]:
    """Sentences about a valid `spec` that a person should read before launching it."""
    return tuple(_cautions(spec)) if spec.run.command is None else ()


def is_python(command: Sequence[str]) -> bool:
    """Whether the words of `command` start Python, as far as they tell."""
    return any(word.rpartition("/")[2].startswith("python") or word.endswith(".py") for word in command)


def default_threads(specs: Sequence[Spec], environ: Mapping[str, str], cores: int, busy: int) -> Iterator[str]:
    """A warning for each Python command of `specs` that says no number of threads, where `busy` of the `cores`
    are taken or come to be: torch and NumPy then start a thread for every core, and these wait for each other.
    """
    others = busy + len(specs) - 1
    for spec in specs:
        if not is_python(spec.run.command or ()):
            continue
        said = spec.run.threads is not None or any(name in environ or name in spec.run.env for name in THREAD_VARIABLES)
        if not said and others > 0:
            yield (
                f"{spec.preset}: its command does not say how many threads to use, so torch and NumPy start {cores}, "
                f"one for each core, beside {others} busy core{'' if others == 1 else 's'}: such a script can run "
                "20 times slower; --set run.threads=1 (or OMP_NUM_THREADS=1 before the command) gives it one"
            )


def _budget(spec: Spec) -> Iterator[Violation]:
    keys = ("run.total_timesteps", "run.duration_s")
    if spec.run.total_timesteps is None and spec.run.duration_s is None:
        yield Violation(keys, "run.total_timesteps is missing; give it (such as 1_000_000), or run.duration_s")
    if spec.run.total_timesteps is not None and spec.run.duration_s is not None:
        yield Violation(keys, "run.total_timesteps and run.duration_s exclude each other; keep one of them")


def _rollout(spec: Spec) -> Iterator[Violation]:
    buffer = rollout_size(spec)
    shape = f"env.n_envs x ppo.n_steps = {spec.env.n_envs:,} x {spec.ppo.n_steps:,} = {buffer:,}"
    sizes = ("env.n_envs", "ppo.n_steps")
    if buffer <= 1:
        yield Violation(sizes[::-1], f"{shape} leaves nothing to compare; ppo.n_steps must be at least 2")
        return
    if buffer > LARGEST_ROLLOUT:
        most = LARGEST_ROLLOUT // spec.env.n_envs
        near = f"ppo.n_steps = {most:,}" if most else f"env.n_envs = {LARGEST_ROLLOUT // spec.ppo.n_steps:,}"
        yield Violation(sizes, f"{shape} is more than {LARGEST_ROLLOUT:,} transitions; the nearest valid is {near}")
        return
    written = spec.ppo.batch_size
    if not isinstance(written, int):
        return
    if written > buffer:
        yield Violation(
            ("ppo.batch_size", *sizes),
            f"ppo.batch_size = {written} is larger than the rollout ({shape}); the nearest valid value is {buffer}",
        )


def _workers(spec: Spec) -> Iterator[Violation]:
    n_envs, n_workers = spec.env.n_envs, spec.env.n_workers
    if n_workers is None or n_envs % (shares := shares_of(spec.env.vec, n_workers)) == 0:
        return
    near = " or ".join(f"env.n_workers = {count}" for count in nearby_workers(spec.env.vec, n_envs, n_workers))
    trainer = " and the trainer" if shares > n_workers else ""
    yield Violation(
        ("env.n_workers", "env.n_envs"),
        f"env.n_envs = {n_envs} cannot be shared evenly by env.n_workers = {n_workers}{trainer}; nearest valid: "
        f"{near}{', or ' if near else ''}env.n_envs = {max(1, round(n_envs / shares)) * shares}",
    )


def _schedules(spec: Spec) -> Iterator[Violation]:
    ranges = {"learning_rate": 1.0, "clip_range": 1e9, "clip_range_vf": 1e9}
    for name, highest in ranges.items():
        schedule = getattr(spec.ppo, name)
        if not isinstance(schedule, Schedule):
            continue
        for end in ("start", "end"):
            if getattr(schedule, end) > highest:
                key = f"ppo.{name}.{end}"
                yield Violation(
                    (f"ppo.{name}",), f"{key} must be at most {highest:g}; the nearest valid value is {highest:g}"
                )
        if schedule.start == schedule.end == 0.0:
            yield Violation((f"ppo.{name}",), f"ppo.{name} is 0 from start to end; its start must be above 0")


def _policy(spec: Spec) -> Iterator[Violation]:
    arch = spec.ppo.net_arch
    for keys, sentence in algorithm.algorithm_complaints(spec):
        yield Violation(keys, sentence)
    for name in arch if isinstance(arch, dict) else ():
        if name not in ("pi", "vf"):
            yield Violation(("ppo.net_arch",), f"unknown key ppo.net_arch.{plain_key(name)}; valid here: pi, vf")
    if arch is not None and "net_arch" in spec.ppo.policy_kwargs:
        yield Violation(
            ("ppo.policy_kwargs", "ppo.net_arch"),
            "ppo.policy_kwargs.net_arch and ppo.net_arch exclude each other; keep ppo.net_arch",
        )


def _engine(spec: Spec) -> Iterator[Violation]:
    reference = (
        "needs run.engine = 'fast', because 'stock' is the reference and computes what Stable-Baselines3 computes"
    )
    if spec.run.engine == "stock" and spec.run.precision != "fp32":
        near = "the nearest valid value is run.precision = 'fp32'"
        said = f"run.precision = '{spec.run.precision}' {reference}; {near}"
        yield Violation(("run.precision", "run.engine"), said)
    if spec.run.engine == "stock" and spec.run.compile:
        said = f"run.compile = true {reference}; the nearest valid value is run.compile = false"
        yield Violation(("run.compile", "run.engine"), said)
    elif spec.run.compile and spec.ppo.use_sde:
        yield Violation(
            ("run.compile", "ppo.use_sde"),
            "run.compile = true and ppo.use_sde = true exclude each other, because gSDE's noise cannot be compiled; "
            "the nearest valid value is run.compile = false",
        )


def _cautions(spec: Spec) -> Iterator[str]:
    buffer, written = rollout_size(spec), spec.ppo.batch_size
    if spec.profile is not None:
        yield spec.profile
    if other_algorithm(spec.run.algo) is not None:
        yield from _env_cautions(spec)
        yield from _of_replaying(spec)
        return
    if algorithm.engine_of(spec) != spec.run.engine:
        yield f"ppo.algo = '{spec.ppo.algo}' is trained by run.engine = 'stock', by sb3-contrib's own operations"
    if isinstance(written, int) and buffer % written:
        yield plan_batch(spec).reasons[0]
    total = spec.run.total_timesteps
    if total is not None and total % buffer:
        ends = -(-total // buffer) * buffer
        if ends > 1.1 * total:
            yield (
                f"run.total_timesteps = {total:,} is no multiple of the rollout of {buffer:,}: "
                f"whole rollouts end at {ends:,}"
            )
    yield from _env_cautions(spec)
    if caution := pressure_caution(spec):
        yield caution
    if spec.ppo.ent_coef > 1.0:
        yield f"ppo.ent_coef = {spec.ppo.ent_coef:g} outweighs the policy loss; usual values are 0 to 0.2"


def _env_cautions(spec: Spec) -> Iterator[str]:
    if spec.env.n_workers is not None and spec.env.vec in ("native", "inline"):
        where = f"with env.vec = '{spec.env.vec}'; 'split' and 'workers' use it"
        yield f"env.n_workers = {spec.env.n_workers} has no effect {where}"
    if spec.env.id.startswith("envpool:") and spec.env.vec in ("inline", *WITH_WORKERS):
        yield f"env.vec = '{spec.env.vec}' steps the pool's tasks one by one; env.vec = 'native' steps them all at once"


def _of_replaying(spec: Spec) -> Iterator[str]:
    buffer, total = algorithm.replay_buffer_of(spec), spec.run.total_timesteps
    if buffer is not None and total is not None and buffer.learning_starts >= total:
        name = algorithm.algorithm_name(spec)
        yield (
            f"{name}.learning_starts = {buffer.learning_starts:,} is not below run.total_timesteps = {total:,}: "
            "it would learn nothing"
        )


_OWN_JOB = "its job is submitted, named and followed by words of the program's own"
_NOT_EXTRA = {
    "array": "an attempt is one job, and `--seeds` launches several runs",
    "requeue": "what goes on is a further attempt in a job of its own (slurm.requeue)",
    "signal": "slurm.warn_s says how long before the time limit it saves",
    **dict.fromkeys(("export", "export-file"), "variables that no file may have travel in its job's environment"),
    **dict.fromkeys(("wrap", "job-name", "chdir", "output", "open-mode", "wait", "test-only", "clusters"), _OWN_JOB),
}
"""Options of `sbatch` with which an attempt would be several jobs, one that nobody finds again, or one without its
variables.
"""
_NOT_EXTRA_SHORT = {"a": "array", "J": "job-name", "D": "chdir", "o": "output", "W": "wait", "M": "clusters"}
_SLURM_TIME = re.compile(r"(?:(?P<d>\d+)-)?(?P<a>\d+)(?::(?P<b>\d+))?(?::(?P<c>\d+))?", re.ASCII)


def _slurm(asked: SlurmSpec) -> Iterator[tuple[tuple[str, ...], str]]:
    for word in asked.extra:
        # sbatch takes the beginning of an option for the option.
        name = word.partition("=")[0].removeprefix("--") if word.startswith("--") else ""
        found = next((long for long in _NOT_EXTRA if len(name) > 2 and long.startswith(name)), None)
        if found is None and word.startswith("-"):
            found = _NOT_EXTRA_SHORT.get(word[1:2])
        if found is not None:
            yield (
                ("slurm.extra",),
                f"slurm.extra cannot have {format_quantity(word)}: {_NOT_EXTRA[found]}; leave it out",
            )
    limit_s = _slurm_seconds(asked.time or "")
    if limit_s and limit_s <= asked.warn_s:
        said = (
            f"slurm.time = {format_quantity(asked.time)} is {limit_s} s, and the run saves and ends slurm.warn_s = "
            f"{asked.warn_s} s before that; give it more time, or a smaller slurm.warn_s"
        )
        yield ("slurm.time", "slurm.warn_s"), said


def _slurm_seconds(said: str) -> int:
    """A time limit in seconds, as sbatch reads it: minutes, hours and minutes after days; 0 for none, or no such."""
    found = _SLURM_TIME.fullmatch(said)
    if found is None:
        return 0
    days, *rest = (int(part or 0) for part in found.group("d", "a", "b", "c"))
    if found["d"] is not None or found["c"] is not None:
        hours, minutes, seconds = rest
    else:
        hours, (minutes, seconds) = 0, rest[:2]
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _program_complaints(spec: Spec) -> Iterator[tuple[tuple[str, ...], str]]:
    """Keys that contradict each other, and a sentence with what is valid instead."""
    yield from _environment(spec.run)
    if spec.run.launcher not in LAUNCHERS:
        hint = nearest(spec.run.launcher[:20], LAUNCHERS) or f"; the nearest valid value is '{LAUNCHERS[0]}'"
        said = f"run.launcher = {format_quantity(spec.run.launcher)} must be {' or '.join(LAUNCHERS)}{hint}"
        yield ("run.launcher",), said
    if spec.run.launcher == "slurm":
        yield from _slurm(spec.slurm)
    if spec.run.command is not None:
        yield from _command(spec)
    elif spec.run.resume_command is not None:
        said = "run.resume_command goes on with what run.command began, which is missing; give both, or neither"
        yield ("run.resume_command", "run.command"), said
    elif spec.run.values:
        said = "run.values are put into a run.command, which is missing"
        yield ("run.values", "run.command"), said
    elif spec.run.follow is not None:
        said = "run.follow reads the logs of a run.command, which is missing; the trainer writes its own rows"
        yield ("run.follow", "run.command"), said


def _command(spec: Spec) -> Iterator[tuple[tuple[str, ...], str]]:
    for key in ("command", "resume_command"):
        words = getattr(spec.run, key)
        if words is not None and (not words or not words[0] or any("\0" in word for word in words)):
            yield (f"run.{key}",), f"run.{key} must begin with a program, such as ['python', 'train.py']"
    if (other := other_algorithm(spec.run.algo)) is not None:
        said = f"run.algo = '{other.name}' is for the built-in trainer and has no effect with run.command"
        yield ("run.algo", "run.command"), said
    for table, default in (("env", EnvSpec()), ("ppo", PpoSpec())):
        fields = getattr(spec, table)
        written = [name for name in fields.__struct_fields__ if getattr(fields, name) != getattr(default, name)]
        if written:
            key = f"{table}.{written[0]}"
            yield (key, "run.command"), f"{key} has no effect with run.command; pass it to the command as an argument"
    for name in TRAINERS_OWN:
        if getattr(spec.run, name) != getattr(_DEFAULT, name):
            near = "; `timeout 60 CMD` ends one after 60 s" if name == "duration_s" else ""
            yield (
                (f"run.{name}", "run.command"),
                f"run.{name} is for the built-in trainer and has no effect with run.command{near}",
            )


def _environment(run: RunSpec) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, value in run.env.items():
        if not _NAME.fullmatch(name) or name.startswith(_OURS) or "\0" in value:
            yield ("run.env",), f"run.env.{plain_key(name)} is not a variable that a run may set; use another name"
        elif is_secret(name, value):
            yield (
                ("run.env",),
                (
                    f"run.env.{plain_key(name)} looks like a secret, and run.env is on record in spec.toml; "
                    "put it into a file and name that with run.env_file, or export it"
                ),
            )
