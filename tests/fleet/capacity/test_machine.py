"""What a machine lacks for a run: hard lacks refuse, slowness warns, and both say numbers."""

from __future__ import annotations

import pytest
from msgspec import structs

from mission_tui.fleet.capacity.demand import Machine, assess, estimate_memory, policy_parameters
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Spec

MIB = 1 << 20
LAPTOP = Machine(cores=2, ram_total=24 << 30, ram_free=16 << 30, disk_free=40 << 30, gpu=False)
STATION = Machine(cores=16, ram_total=64 << 30, ram_free=48 << 30, disk_free=400 << 30, gpu=True, gpu_count=2)


def spec(env: EnvSpec | None = None, ppo: PpoSpec | None = None, run: RunSpec | None = None) -> Spec:
    """A spec of which only the named tables matter."""
    return Spec(
        preset="machine",
        env=env or EnvSpec(id="MissionGym-v0"),
        ppo=ppo or PpoSpec(),
        run=run or RunSpec(total_timesteps=100_000),
    )


BEAST = spec(
    EnvSpec(id="MissionGym-v0", n_envs=64),
    PpoSpec(n_steps=512, batch_size=8192, n_epochs=30, net_arch=(1024, 512, 512, 256)),
    RunSpec(total_timesteps=50_000_000),
)


def test_a_small_run_fits_without_a_word() -> None:
    """Defaults on a laptop: no lack, no warning, and an estimate near a trainer's own size."""
    assessment = assess(spec(), LAPTOP)
    assert (assessment.hard, assessment.warnings) == ((), ())
    assert 300 * MIB < assessment.ram_bytes < 400 * MIB


def test_the_estimate_is_near_what_was_measured() -> None:
    """An SB3 run of the shape of `beast` peaked at 702 MiB; the parameters are SB3's own count without log_std."""
    assert estimate_memory(BEAST, cores=2).total_bytes == pytest.approx(702 * MIB, rel=0.05)
    assert policy_parameters(BEAST, 42, 36) == 1_935_141


@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
def test_a_gpu_that_was_asked_for_must_be_there(device: str) -> None:
    """CUDA without a GPU is a hard lack with the way out; with one it is fine."""
    wanted = spec(run=RunSpec(total_timesteps=1, device=device))
    (lack,) = assess(wanted, LAPTOP).hard
    assert device in lack
    assert "use run.device = 'cpu'" in lack
    assert assess(wanted, STATION).hard == ()


def test_a_gpu_index_must_exist() -> None:
    """`cuda:99` on a machine with two names the nearest one; an unknown count is not held against it."""
    wanted = spec(run=RunSpec(total_timesteps=1, device="cuda:99"))
    (lack,) = assess(wanted, STATION).hard
    assert "'cuda:1'" in lack
    unknown = Machine(cores=16, ram_total=None, ram_free=None, disk_free=None, gpu=True)
    assert assess(wanted, unknown).hard == ()


def test_too_little_memory_is_a_hard_lack_with_what_fits() -> None:
    """The proposed number of environments fits, is a multiple of the workers, and one more group would not fit."""
    env = EnvSpec(id="CartPole-v1", n_envs=8000, n_workers=8)
    machine = Machine(cores=16, ram_total=8 << 30, ram_free=2 << 30, disk_free=None, gpu=False)
    big = spec(env, PpoSpec(n_steps=1024, batch_size=64))
    (lack,) = assess(big, machine).hard
    fits = int(lack.split("env.n_envs = ")[1].split()[0])
    assert fits % 8 == 0
    for n_envs, expected in ((fits, 0), (fits + 8, 1)):
        smaller = spec(EnvSpec(id="CartPole-v1", n_envs=n_envs, n_workers=8), PpoSpec(n_steps=1024, batch_size=64))
        assert len(assess(smaller, machine).hard) == expected


def test_a_machine_too_small_for_any_run_says_so() -> None:
    """Where even one environment does not fit, no number is proposed."""
    machine = Machine(cores=1, ram_total=256 * MIB, ram_free=100 * MIB, disk_free=None, gpu=False)
    (lack,) = assess(spec(), machine).hard
    assert "100 MiB are free" in lack
    assert "env.n_envs =" not in lack


def test_a_full_disk_is_a_hard_lack() -> None:
    """Checkpoints and records need room; an unknown amount of room is no lack."""
    full = Machine(cores=2, ram_total=None, ram_free=None, disk_free=8 * MIB, gpu=False)
    (lack,) = assess(BEAST, full).hard
    assert "8 MiB are free" in lack
    assert assess(BEAST, Machine(cores=2, ram_total=None, ram_free=None, disk_free=None, gpu=False)).hard == ()


def test_too_few_cores_warn_with_numbers() -> None:
    """Workers beyond the cores, environments beyond what a core steps, and threads beyond the cores only warn."""
    env = EnvSpec(id="CartPole-v1", n_envs=64, n_workers=8)
    assessment = assess(spec(env, run=RunSpec(total_timesteps=100_000, threads=4)), LAPTOP)
    assert assessment.hard == ()
    workers, environments, threads = assessment.warnings
    assert "env.n_workers = 8 on 2 core(s)" in workers
    assert "env.n_workers = 2 is as fast" in workers
    (split, *_) = assess(spec(structs.replace(env, vec="split", n_workers=3)), LAPTOP).warnings
    assert "env.n_workers = 1 is as fast" in split
    (alone, *_) = assess(
        spec(structs.replace(env, vec="split", n_workers=1)), structs.replace(LAPTOP, cores=1)
    ).warnings
    assert "env.vec = 'inline' is as fast" in alone
    assert "32 a core" in environments
    assert "2.0 x as long as on 4 cores" in environments
    assert "run.threads = 4" in threads


def test_workers_that_will_not_be_started_are_not_warned_of() -> None:
    """MissionGym is stepped as one batch; a number of workers costs it nothing, nor do many environments."""
    assert assess(spec(EnvSpec(id="MissionGym-v0", n_envs=64, n_workers=8)), LAPTOP).warnings == ()


def test_ten_thousand_environments_are_warned_of_unless_batched() -> None:
    """One by one they are far too many for any core; a batched environment steps them together."""
    assert assess(spec(EnvSpec(id="CartPole-v1", n_envs=10_000), PpoSpec(n_steps=4)), STATION).warnings
    native = EnvSpec(id="MissionGym-v0", n_envs=10_000, vec="native")
    assert assess(spec(native, PpoSpec(n_steps=4)), STATION).warnings == ()


def test_days_of_arithmetic_without_a_gpu_are_warned_of() -> None:
    """`beast` on two cores is told its hours; on a GPU it is not."""
    slow = assess(BEAST, LAPTOP).warnings[-1]
    assert "96 h in all" in slow
    assert assess(BEAST, STATION).warnings == ()
