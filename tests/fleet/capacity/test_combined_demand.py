"""What several runs at once lack: memory and cores are counted for all of them, and for those that are live."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mission_tui.fleet.capacity.admission import assess_combined
from mission_tui.fleet.capacity.demand import MIB, Machine, assess, busy_cores, likely_workers
from mission_tui.fleet.specs.spec import EnvSpec, KeepSpec, LimitsKeep, RunSpec, Spec


def spec(run: RunSpec | None = None, group_runs: int | None = None, **env: Any) -> Spec:
    """A spec of which only environments, threads and the number that may live at once matter."""
    return Spec(
        keep=KeepSpec(limits=LimitsKeep(group_runs=group_runs)),
        preset="p",
        env=msgspec.convert({"id": "MissionGym-v0", **env}, EnvSpec),
        run=run or RunSpec(total_timesteps=10_000),
    )


def box(cores: int = 2, free_mib: int = 16_000) -> Machine:
    """A machine with a given number of cores and of free memory."""
    return Machine(cores=cores, ram_total=None, ram_free=free_mib * MIB, disk_free=None, gpu=False)


def test_runs_that_fit_one_by_one_must_fit_all_together() -> None:
    """Two of four fit: all are refused, with the numbers in all and how many would do."""
    each = assess(spec(), box()).ram_bytes / MIB
    (lack,) = assess_combined([spec()] * 4, box(cores=8, free_mib=int(2 * each) + 100)).hard
    assert f"4 runs at once need about {4 * each:,.0f} MiB" in lack
    assert "launch the first 2 now" in lack
    assert assess_combined([spec()] * 4, box(cores=8, free_mib=int(4 * each) + 100)).hard == ()


def test_what_one_lacks_by_itself_is_said_of_it() -> None:
    """A run that can never fit is named, once, instead of the sum."""
    (lack,) = assess_combined([spec()] * 2, box(free_mib=100)).hard
    assert lack.startswith("p: needs about")


@pytest.mark.parametrize(("count", "live", "sentence"), [(1, 0, ""), (2, 0, ""), (4, 0, "50%"), (1, 2, "67%")])
def test_more_runs_than_cores_are_warned_of_once(count: int, live: int, sentence: str) -> None:
    """Runs beyond the cores start with a number of what that costs; those that are live count."""
    at_once = spec(group_runs=count)
    warnings = assess_combined([at_once] * count, box(), [spec()] * live).warnings
    assert len(warnings) == bool(sentence)
    assert all(sentence in warning and "2 would run at full speed" in warning for warning in warnings)


def test_a_launch_that_says_no_number_is_told_how_many_begin() -> None:
    """Those that find cores, beside what is live; at least one; and the option that has more of them share."""
    (warning,) = assess_combined([spec()] * 6, box(cores=4), [spec()]).warnings
    assert "6 runs need 6 cores and you have 4, of which other runs keep 1 busy: 3 begin now" in warning
    assert "launch -j N" in warning
    (warning,) = assess_combined([spec()] * 3, box(cores=2), [spec()] * 2).warnings
    assert "one begins now" in warning
    assert assess_combined([spec()] * 3, box(cores=4), [spec()]).warnings == ()


def test_threads_and_written_workers_count_as_cores() -> None:
    """Two runs of two threads at once want four cores, and the remedy is one thread each."""
    threads = spec(RunSpec(total_timesteps=10_000, threads=2), group_runs=2)
    (warning,) = assess_combined([threads] * 2, box()).warnings
    assert "need 4 cores" in warning
    assert "1 would run at full speed; run.threads = 1" in warning
    assert busy_cores(spec(id="CartPole-v1", n_workers=4), 8) == 4
    assert busy_cores(spec(id="CartPole-v1", n_workers=40), 8) == 8
    assert busy_cores(spec(id="CartPole-v1", vec="split", n_workers=3), 8) == 4


@pytest.mark.parametrize(
    ("env", "workers"),
    [
        ({"vec": "workers"}, 4),
        ({"vec": "workers", "n_envs": 6}, 3),
        ({"vec": "workers", "n_workers": 8}, 8),
        ({"vec": "inline", "n_workers": 8}, 0),
        ({"vec": "native"}, 0),
        ({"vec": "auto"}, 0),
        ({"vec": "auto", "id": "envpool:CartPole-v1"}, 0),
        ({"vec": "auto", "wrappers": ("gymnasium.wrappers:ClipReward",)}, 3),
        ({"vec": "auto", "id": "LunarLander-v3"}, 3),
        ({"vec": "auto", "id": "LunarLander-v3", "n_envs": 7}, 0),
        ({"vec": "split"}, 3),
        ({"vec": "split", "n_envs": 6}, 2),
        ({"vec": "split", "n_envs": 7}, 0),
        ({"vec": "split", "n_envs": 1}, 0),
        ({"vec": "split", "n_workers": 1}, 1),
    ],
)
def test_workers_are_counted_that_nobody_wrote(env: dict[str, Any], workers: int) -> None:
    """As many as share the environments evenly on four cores; each is memory."""
    counted = spec(**env)
    assert likely_workers(counted, 4) == workers
    inline = spec(**{**env, "vec": "native"})
    assert assess(counted, box(cores=4)).ram_bytes >= assess(inline, box(cores=4)).ram_bytes + workers * 26 * MIB
