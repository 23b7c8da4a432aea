"""Claims: an estimate until a run trains, then what was seen; only what is still to be taken counts against others."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import structs

from mission_tui.fleet.capacity.admission import assess_combined
from mission_tui.fleet.capacity.demand import (
    CONTEXT_BYTES,
    KEEPER_BYTES,
    MIB,
    Claim,
    Machine,
    assess,
    claim_for,
    claim_with_usage,
    outstanding_ram,
    outstanding_vram,
)
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Spec

SPEC = Spec(preset="p", env=EnvSpec(id="MissionGym-v0"), run=RunSpec(total_timesteps=10_000))
NEW = Claim(cores=2, ram_bytes=600 * MIB, gpu="GPU-a1", vram_bytes=800 * MIB)


def seen(*, trains: bool, held_mib: int, vram_mib: int | None = None) -> Claim:
    vram = None if vram_mib is None else vram_mib * MIB
    return claim_with_usage(NEW, trains=trains, held_bytes=held_mib * MIB, vram_held_bytes=vram)


def test_a_run_that_has_just_begun_will_take_the_rest_of_its_estimate() -> None:
    """What it holds already is in the machine's meters; of the GPU likewise, as far as somebody tells."""
    assert outstanding_ram([seen(trains=False, held_mib=100)]) == 500 * MIB
    assert outstanding_vram([seen(trains=False, held_mib=100, vram_mib=300)], "GPU-a1") == 500 * MIB
    assert outstanding_vram([seen(trains=False, held_mib=100)], "GPU-a1") == 800 * MIB
    assert outstanding_vram([seen(trains=False, held_mib=100)], "GPU-b2") == 0


def test_one_that_trains_has_taken_all_that_it_will() -> None:
    """More or less than was estimated: it counts with nothing beyond what it holds."""
    for held in (100, 900):
        claim = seen(trains=True, held_mib=held, vram_mib=held)
        assert (outstanding_ram([claim]), outstanding_vram([claim], "GPU-a1")) == (0, 0)
        assert claim.ram_bytes == held * MIB
    assert outstanding_vram([seen(trains=True, held_mib=100)], "GPU-a1") == 800 * MIB


def test_one_that_took_more_than_was_estimated_gives_nothing_to_others() -> None:
    """A claim below what is held would otherwise count as room."""
    assert outstanding_ram([seen(trains=False, held_mib=900), seen(trains=False, held_mib=0)]) == 600 * MIB


def test_the_estimate_is_that_of_the_launch() -> None:
    """The same bytes for which the launch was judged; a GPU holds the tensors and its context, not the processes."""
    machine = Machine(cores=4, ram_total=None, ram_free=None, disk_free=None, gpu=True)
    claim = claim_for(SPEC, 4, "GPU-a1")
    assert claim.ram_bytes == assess(SPEC, machine).ram_bytes
    assert CONTEXT_BYTES < claim.vram_bytes < CONTEXT_BYTES + claim.ram_bytes
    wide = structs.replace(SPEC, ppo=PpoSpec(net_arch=(1024, 1024)))
    assert claim_for(wide, 4, "GPU-a1").vram_bytes > claim.vram_bytes
    assert claim_for(SPEC, 4, None).vram_bytes == 0
    command = structs.replace(SPEC, run=RunSpec(command=("python",)))
    assert (claim_for(command, 4, "GPU-a1").ram_bytes, claim_for(command, 4, "GPU-a1").gpu) == (KEEPER_BYTES, "")


def test_runs_elsewhere_count_for_the_cores() -> None:
    """They keep cores busy as those here do, at most all of them each; one that is held keeps none."""
    box = Machine(cores=2, ram_total=None, ram_free=None, disk_free=None, gpu=False)
    assert assess_combined([SPEC], box, [], [Claim(cores=0)]).warnings == ()
    (warning,) = assess_combined([SPEC], box, [SPEC], [Claim(cores=4000)]).warnings
    assert "3 runs, 1 of them live or queued already and 1 of them at other runs roots, need 4 cores" in warning


def test_who_waits_for_memory_needs_only_what_there_is_in_all() -> None:
    """A launch is no mistake while others hold the memory; it is when there can never be as much."""
    full = Machine(cores=2, ram_total=8 << 30, ram_free=MIB, disk_free=None, gpu=False)
    assert assess_combined([SPEC], full).hard
    assert not assess_combined([SPEC, SPEC], full, waits=True).hard
    (lack,) = assess_combined([SPEC], _small(full), waits=True).hard
    assert "1 MiB are the most that can be free" in lack


def _small(machine: Machine) -> Machine:
    return Machine(machine.cores, MIB, MIB, None, gpu=False)


def test_a_claim_with_absurd_numbers_is_none() -> None:
    """What others write is read within bounds."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"cores": 5000}', type=Claim)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"ram_bytes": -1}', type=Claim)
