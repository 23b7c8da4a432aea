"""Whose turn it is: nothing is promised twice, everybody comes to begin, and who waits is told for what."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from msgspec.structs import replace as replaced

from mission_tui.fleet.capacity.admission import (
    PRIORITY_S,
    Admit,
    Gpu,
    Headroom,
    MachineLimits,
    QueuedRun,
    Wait,
    decide_queue,
    never_fits,
    size_of,
)
from mission_tui.fleet.capacity.demand import Claim
from mission_tui.fleet.specs.spec import LimitsKeep

GIB = 1 << 30
MIB = 1 << 20
HOUR = 3600.0


def run(name: str, ram_gib: float = 1.0, t: float = 0.0, **limits: Any) -> QueuedRun:
    """A run on the CPU."""
    claim = Claim(cores=1, ram_bytes=int(ram_gib * GIB))
    return QueuedRun(id=name, name=name, claim=claim, since_t=t, limits=LimitsKeep(**limits))


def on_gpu(name: str, vram_gib: float, t: float = 0.0, gpus: tuple[str, ...] = ("a", "b"), **limits: Any) -> QueuedRun:
    claim = Claim(cores=1, ram_bytes=MIB, vram_bytes=int(vram_gib * GIB))
    return QueuedRun(id=name, name=name, claim=claim, gpus=gpus, since_t=t, limits=LimitsKeep(**limits))


def box(ram_gib: float = 8.0, gpus: tuple[Gpu, ...] = (), **caps: Any) -> Headroom:
    free = int(ram_gib * GIB)
    return Headroom(cores=4, gpus=gpus, ram_free=free, ram_unpromised=free, caps=MachineLimits(**caps))


def gpu(uuid: str, free_gib: float, total_gib: float = 8.0, runs: int = 0) -> Gpu:
    return Gpu(uuid, int(total_gib * GIB), int(free_gib * GIB), runs)


def words(line: list[QueuedRun], headroom: Headroom) -> dict[str, str]:
    """What each is told; empty for those that begin."""
    return {id_: turn.why if isinstance(turn, Wait) else "" for id_, turn in decide_queue(line, headroom).items()}


def test_what_fits_begins_and_the_rest_waits_with_the_reason() -> None:
    """Eight runs of a GiB in three and a half: three begin, the fourth is told its lack, the rest who is first."""
    said = list(words([run(f"beast-{n}", t=n) for n in range(1, 9)], box(ram_gib=3.5)).values())
    assert said[:3] == [""] * 3
    assert said[3] == "waits for 1.0 GiB of memory: 512 MiB are free and not reserved for other runs"
    assert said[4:] == ["waits behind beast-4, which waits for 1.0 GiB of memory"] * 4


def test_a_small_run_does_not_pass_a_large_one_that_waits() -> None:
    """Else a stream of small ones would keep the large one waiting for ever."""
    said = words([run("large", 6.0, t=1), run("small", 0.1, t=2)], box(ram_gib=5.0))
    assert said["small"] == "waits behind large, which waits for 6.0 GiB of memory"


def test_who_waits_for_a_gpu_keeps_one_and_no_more() -> None:
    """The one that it can have soonest; on another GPU, and on none, others go on."""
    headroom = box(gpus=(gpu("a", 2.0), gpu("b", 5.0)))
    said = decide_queue(
        [on_gpu("large", 6.0, 1), on_gpu("small", 1.0, 2), run("cpu", t=3), on_gpu("b-only", 1, 4, ("b",))], headroom
    )
    assert said["small"] == Admit("a")
    assert said["cpu"] == Admit()
    assert said["b-only"] == Wait("waits behind large, which waits for 6.0 GiB of GPU memory")


def test_who_waits_for_a_gpu_is_told_whose_runs_have_it() -> None:
    """Own runs by name, those at other roots by number, other users' with what they reserved: of its GPUs alone, and
    strangers only where memory is short, which is theirs too.
    """
    first = replaced(gpu("a", 2.0, runs=2), names=("seed-1", "seed-2"), others=(("bob", 1, 3 * GIB),))
    second = replaced(gpu("b", 1.0, runs=1), names=("seed-2",), elsewhere=1, others=(("bob", 1, GIB), ("ann", 2, GIB)))
    third = replaced(gpu("c", 8.0), names=("not-there",))
    headroom = box(gpus=(first, second, third))
    everybody = " (yours: seed-1, seed-2, and 1 at your other runs roots; ann: 2 runs, 1.0 GiB; bob: 2 runs, 4.0 GiB)"
    assert f"on any GPU{everybody}; run.device" in words([on_gpu("one", 4.0)], headroom)["one"]
    limited = replace(headroom, caps=MachineLimits(runs_per_gpu=1))
    said = words([on_gpu("one", 0.5, gpus=("a",))], limited)["one"]
    assert said.endswith("and it has as many (yours: seed-1, seed-2)")
    assert words([on_gpu("one", 0.5, gpus=("a",), runs_per_gpu=2)], headroom)["one"].endswith("(yours: seed-1, seed-2)")
    kept = words([on_gpu("one", 0.5, gpus=("b",), vram_free=7 * 10**9)], headroom)["one"]
    assert kept.endswith("(yours: seed-2, and 1 at your other runs roots; ann: 2 runs, 1.0 GiB; bob: 1 run, 1.0 GiB)")


def test_a_gpu_that_is_too_small_is_not_kept_for_a_run() -> None:
    """It could wait there for ever."""
    headroom = box(gpus=(gpu("a", 7.9, 8.0), gpu("b", 5.0, 24.0)))
    said = decide_queue([on_gpu("large", 20.0, 1), on_gpu("small", 1.0, 2), on_gpu("also-large", 20.0, 3)], headroom)
    assert said["small"] == Admit("a")
    assert said["also-large"] == Wait("waits behind large, which waits for 20.0 GiB of GPU memory")


def test_a_step_of_priority_is_an_hour_of_waiting() -> None:
    """So an important run goes first, but not before one that has waited longer than that for its turn."""
    assert PRIORITY_S == HOUR
    important = run("important", t=2 * HOUR, priority=1)
    for waited_h, first in ((0.5, "important"), (1.5, "early")):
        line = [run("early", t=(2.0 - waited_h) * HOUR), important]
        said = words(line, box(ram_gib=1.0))
        assert [id_ for id_, why in said.items() if not why] == [first]
    assert next(iter(decide_queue([run("late", t=HOUR), run("later", t=HOUR + 1, priority=-1)], box()))) == "late"


@pytest.mark.parametrize(
    ("caps", "sentence"),
    [
        (
            {"ram": 2 * GIB},
            "waits for 1.0 GiB of memory: 512 MiB are left of the 2.0 GiB that limits.toml gives to runs",
        ),
        ({"cores": 2}, "waits for 1 core: 0 of the 2 that limits.toml gives to runs are free"),
        ({"runs": 2}, "waits for another run's end: limits.toml allows 2 at once, and as many are live"),
    ],
)
def test_the_limits_of_the_machine_hold_runs_back(caps: dict[str, Any], sentence: str) -> None:
    """Memory, cores and runs count over all runs of a user; the file is named."""
    headroom = replace(box(**caps), runs=2, cores_busy=2, ram_taken=GIB * 3 // 2)
    assert words([run("one")], headroom) == {"one": sentence}
    assert words([run("one")], box(**caps)) == {"one": ""}


def test_the_limits_of_the_machine_hold_on_every_gpu() -> None:
    """So many bytes and so many runs of a GPU, however much more it has."""
    headroom = box(gpus=(Gpu("a", 8 * GIB, 6 * GIB, 2, 0.0, 3 * GIB),), vram=4 * GIB)
    (said,) = words([on_gpu("one", 2.0, gpus=("a",))], headroom).values()
    assert said.startswith("waits for 2.0 GiB of GPU memory: no more than 1.0 GiB is free")
    assert "under limits.toml; run.device = 'cpu' needs none" in said
    headroom = box(gpus=(gpu("a", 6.0, runs=2), gpu("b", 6.0, runs=2)), runs_per_gpu=2)
    assert words([on_gpu("one", 1.0)], headroom) == {
        "one": "waits for a GPU: limits.toml allows 2 runs on one, and each has as many"
    }


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        ({"disk_free": 50 * 10**9}, "waits for the disk: 1.0 GB free, keep.limits.disk_free asks for 50.0 GB"),
        (
            {"ram_free": 9 * 10**9},
            "waits for memory: 8.6 GB are free and not reserved for other runs, keep.limits.ram_free asks for 9.0 GB",
        ),
        ({"cores_free": 2}, "waits for cores: runs keep 3 of 4 busy, keep.limits.cores_free asks for 2"),
        ({"runs": 1}, "waits for another run's end: 3 are live, and keep.limits.runs allows 1 with it"),
        ({"runs_per_gpu": 1}, "waits for a GPU: keep.limits.runs_per_gpu allows 1 with it"),
        ({"vram_free": 7 * 10**9}, "waits for a GPU: keep.limits.vram_free asks for 7.0 GB"),
    ],
)
def test_what_a_preset_asks_to_be_left_holds_that_run_alone(limits: dict[str, Any], sentence: str) -> None:
    """It waits with the key as the reason, and keeps nothing from those behind it."""
    headroom = replace(box(gpus=(gpu("a", 6.0, runs=1),)), disk_free=10**9, cores_busy=3, runs=3)
    said = words([on_gpu("modest", 1.0, 1, ("a",), **limits), on_gpu("next", 1.0, 2, ("a",))], headroom)
    assert said == {"modest": sentence, "next": ""}


def test_who_waits_for_another_run_keeps_nothing() -> None:
    """Those behind it begin; what holds it is its reason."""
    held = replace(run("after", 6.0, t=1), held="waits for heavy-1 to end")
    assert words([held, run("next", 6.0, t=2)], box()) == {"after": "waits for heavy-1 to end", "next": ""}


def test_what_can_never_be_carried_is_said_with_numbers() -> None:
    """More than there is in all, or than the machine's limits ever give; what merely waits is not among it."""
    headroom = box(ram_gib=0.1, gpus=(gpu("a", 0.0), gpu("b", 0.0, 24.0)), ram=4 * GIB, vram=6 * GIB, cores=1)
    assert list(never_fits(run("fits", 3.0), headroom)) == []
    assert list(never_fits(run("capped", 5.0), headroom)) == [
        "needs about 5.0 GiB of memory and limits.toml gives to runs 4.0 GiB"
    ]
    assert list(never_fits(on_gpu("vast", 30.0), headroom)) == [
        "needs about 30.0 GiB of GPU memory and the largest GPU that it may use has 24.0 GiB"
    ]
    assert list(never_fits(on_gpu("big", 7.0), headroom)) == [
        "needs about 7.0 GiB of GPU memory and limits.toml gives to runs of a GPU 6.0 GiB"
    ]
    busy = replace(run("busy", cores_free=9), claim=Claim(cores=2))
    assert len(list(never_fits(busy, headroom))) == 2


def test_a_lack_shows_in_its_numbers() -> None:
    """What is needed is rounded up, what is there down."""
    assert (size_of(700 * MIB + 1, up=True), size_of(701 * MIB - 1)) == ("701 MiB", "700 MiB")
    assert (size_of(GIB + MIB, up=True), size_of(GIB + MIB)) == ("1.1 GiB", "1.0 GiB")


@dataclass
class Fleet:
    """Two GPUs on which runs come and go: what the rule says is done, and whether it may be is checked."""

    totals: dict[str, int]
    live: dict[str, tuple[str, int]] = field(default_factory=dict)
    line: list[QueuedRun] = field(default_factory=list)

    def step(self) -> None:
        gpus = [Gpu(uuid, total, total - self.held(uuid), self.runs(uuid)) for uuid, total in self.totals.items()]
        for id_, turn in decide_queue(self.line, Headroom(cores=8, gpus=tuple(gpus))).items():
            if isinstance(turn, Admit):
                run = next(it for it in self.line if it.id == id_)
                assert turn.gpu in run.gpus
                self.line.remove(run)
                self.live[id_] = turn.gpu, run.claim.vram_bytes
        for uuid, total in self.totals.items():
            assert self.held(uuid) <= total, "over-committed"

    def held(self, uuid: str) -> int:
        return sum(need for where, need in self.live.values() if where == uuid)

    def runs(self, uuid: str) -> int:
        return sum(where == uuid for where, _ in self.live.values())


needs = st.tuples(st.integers(1, 24), st.sampled_from([("a", "b"), ("a", "b"), ("a",), ("b",)]), st.integers(-2, 2))


@settings(max_examples=200, deadline=None)
@given(
    totals=st.tuples(st.integers(8, 24), st.integers(8, 24)),
    wanted=st.lists(needs, min_size=8, max_size=8),
    order=st.randoms(use_true_random=False),
)
def test_no_gpu_is_over_committed_and_the_queue_drains(
    totals: tuple[int, int], wanted: list[tuple[int, tuple[str, ...], int]], order: random.Random
) -> None:
    """Two GPUs, eight runs of known memory in any order of coming and ending: every one begins and ends."""
    fleet = Fleet(dict(zip("ab", totals, strict=True)))
    coming = [
        on_gpu(f"run-{n}", 0, float(n), gpus, priority=priority)
        for n, (need, gpus, priority) in enumerate(wanted)
        if need <= max(fleet.totals[uuid] for uuid in gpus)
    ]
    sizes = {f"run-{n}": need for n, (need, _, _) in enumerate(wanted)}
    coming = [replace(it, claim=Claim(vram_bytes=sizes[it.id])) for it in coming]
    while coming or fleet.line or fleet.live:
        before = (len(coming), len(fleet.line), len(fleet.live))
        if coming and (not fleet.live or order.random() < 0.5):
            fleet.line.append(coming.pop(0))
        elif fleet.live:
            del fleet.live[order.choice(sorted(fleet.live))]
        fleet.step()
        assert (len(coming), len(fleet.line), len(fleet.live)) != before, "nobody moves any more"


@pytest.mark.parametrize("priority", [0, 3])
def test_nobody_is_passed_by_for_ever(priority: int) -> None:
    """A run that needs a whole GPU begins although there are always small ones in line, even more important ones."""
    dice = random.Random(7)
    fleet = Fleet({"a": 24, "b": 24}, {"old-a": ("a", 24), "old-b": ("b", 24)})
    large = replace(on_gpu("large", 0, 0.0), claim=Claim(vram_bytes=24))
    fleet.line.append(large)
    for n in range(200):
        while len(fleet.line) < 12:
            small = on_gpu(f"small-{n:03}-{len(fleet.line)}", 0, n * 600.0, priority=priority)
            fleet.line.append(replace(small, claim=Claim(vram_bytes=dice.randint(1, 8))))
        if fleet.live:
            del fleet.live[dice.choice(sorted(fleet.live))]
        fleet.step()
        if large not in fleet.line:
            return
    raise AssertionError("the large run was passed by")
