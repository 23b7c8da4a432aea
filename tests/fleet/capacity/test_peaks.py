"""What was seen of earlier runs of a shape stands for the estimate."""

from __future__ import annotations

from msgspec import structs

from mission_tui.fleet.capacity.admission import assess_combined
from mission_tui.fleet.capacity.demand import MIB, Machine, assess, claim_for
from mission_tui.fleet.capacity.reference_runs import Peaks, shape_of
from mission_tui.fleet.events.processes import Peak
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Spec

SPEC = Spec(preset="p", env=EnvSpec(id="MissionGym-v0"), run=RunSpec(total_timesteps=10_000))


def test_only_what_memory_depends_on_makes_a_shape() -> None:
    """Other seeds, budgets and rates are the same shape; another network, device or number of environments is not."""
    same = structs.replace(SPEC, run=RunSpec(total_timesteps=5, seed=3), ppo=PpoSpec(learning_rate=1e-5), preset="q")
    assert shape_of(same) == shape_of(SPEC)
    others = (
        structs.replace(SPEC, env=structs.replace(SPEC.env, n_envs=9)),
        structs.replace(SPEC, ppo=PpoSpec(net_arch=(512,))),
        structs.replace(SPEC, run=RunSpec(total_timesteps=10_000, device="cpu")),
    )
    assert len({shape_of(spec) for spec in (SPEC, *others)}) == 4


def test_the_most_of_the_last_five_counts() -> None:
    """In the order in which they ended, however they were read; memory of a GPU that nobody told is not known."""
    peaks = Peaks()
    assert peaks.of(SPEC) is None
    for t in (3.0, 1.0, 2.0, 6.0, 5.0, 4.0):
        peaks.add(SPEC, Peak(rss_bytes=int(1000 - t), vram_bytes=7 if t == 4.0 else None), t)
    assert peaks.of(SPEC) == Peak(998, 7)
    peaks.add(SPEC, Peak(1), 9.0)
    assert peaks.of(SPEC) == Peak(997, 7)


def test_what_was_seen_replaces_the_arithmetic() -> None:
    """In claims and in what lacks, with the sentence that says so; a GPU's only where it was told."""
    claim = claim_for(SPEC, 4, "GPU-a", Peak(812 * MIB, 300 * MIB))
    assert (claim.ram_bytes, claim.vram_bytes) == (812 * MIB, 300 * MIB)
    assert claim_for(SPEC, 4, "GPU-a", Peak(812 * MIB)).vram_bytes == claim_for(SPEC, 4, "GPU-a").vram_bytes
    command = structs.replace(SPEC, run=RunSpec(command=("python",)))
    assert claim_for(command, 4, None, Peak(99 * MIB)).ram_bytes == 99 * MIB
    box = Machine(cores=4, ram_total=None, ram_free=500 * MIB, disk_free=None, gpu=False)
    assert assess(SPEC, box).hard == ()
    (lack,) = assess(SPEC, box, seen_bytes=812 * MIB).hard
    assert lack.startswith("needs about 812 MiB of memory (measured last time) and 500 MiB are free")
    assert assess_combined([SPEC] * 2, box, seen=[200 * MIB] * 2).hard == ()
    assert assess_combined([SPEC] * 2, box, seen=[300 * MIB] * 2).hard
