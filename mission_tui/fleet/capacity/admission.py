"""The queue and its admission control: what the machine can still give within the limits of all runs together, which
of the waiting runs begin now, on which GPU, and what each of the others waits for.

The rule. Runs are queued by the moment they came; a step of priority counts as much as an hour of waiting. For the
first run that is short of a resource, that resource is reserved: runs behind it get none of it, but may have any
other. So no run waits for ever, neither behind small runs nor behind important ones. A run that waits only for the
headroom its own preset asks for, or for another run, blocks no other.

The limits (memory, GPU memory, cores, number of runs) stand in `limits.toml`, the user's and the administrator's. The
tighter of two files holds; what is absent is not limited. The GPU is the one that the run's spec and its shell name,
else the calmest of those with room for it. Free memory is what no process holds and no run was promised. What is not
known never counts against a GPU.

What a run lacks is a sentence with numbers that goes on after its name. What several runs at once ask of one machine
is judged beside those that are live already, here and at other runs roots.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field, structs
from msgspec.structs import replace

from mission_tui.fleet.capacity.demand import MIB, Assessment, Claim, Machine, assess, busy_cores
from mission_tui.fleet.specs.schema import Place, described, fit_table
from mission_tui.fleet.specs.spec import LimitsKeep, Spec

Bytes = Annotated[int, Meta(ge=1, le=10**18)]
Count = Annotated[int, Meta(ge=1, le=4096)]
DUTY = 0.15
"""How much of a GPU a PPO run keeps busy until that is seen: it mostly waits for environments (health guide 8)."""
_STEP = 0.1
"""Busy shares that differ by less say nothing: they change from one look to the next."""
PRIORITY_S = 3600.0
"""What a step of priority is worth."""


class MachineLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """At most so much for all runs of a user together, whatever runs root they are in; None is no limit.

    `ram` bytes of memory, `vram` bytes of each GPU, `cores` that they keep busy, `runs` that live at once, and
    `runs_per_gpu` of them on one GPU.
    """

    ram: Bytes | None = None
    vram: Bytes | None = None
    cores: Count | None = None
    runs: Count | None = None
    runs_per_gpu: Count | None = None


def read_limits(table: Mapping[str, object], path: Path) -> MachineLimits:
    """The limits in `table`, parsed from the file at `path`. Raises `PresetError` naming file, key and remedy."""
    return msgspec.convert(fit_table(described(MachineLimits), table, Place(str(path))), MachineLimits)


def tightest(limits: Sequence[MachineLimits]) -> MachineLimits:
    """Of each limit the least."""
    named = {name: [it for each in limits if (it := getattr(each, name)) is not None] for name in _NAMES}
    return MachineLimits(**{name: min(values) for name, values in named.items() if values})


_NAMES = MachineLimits.__struct_fields__


class QueuedRun(Struct, frozen=True, kw_only=True):
    """A run that would begin: what it will take, by estimate, and the GPUs (UUIDs) that it may use, none on the CPU.

    `since_t` (unix s) is when it came; `held` says what else it waits for, in a sentence. One that is carried out
    `elsewhere` takes nothing of this machine, and waits for no room on it.
    """

    id: str
    name: str
    claim: Claim
    gpus: tuple[str, ...] = ()
    limits: LimitsKeep = field(default_factory=LimitsKeep)
    since_t: float = 0.0
    held: str = ""
    elsewhere: bool = False

    @property
    def place(self) -> tuple[float, str]:
        """What queued runs are sorted by: the least begins first."""
        return self.since_t - PRIORITY_S * self.limits.priority, self.id


class Headroom(Struct, frozen=True, kw_only=True):
    """What the machine can still give, in bytes; None is not known and never makes a run wait.

    `ram_free` is promised to no run of this user or root; `ram_unpromised` to no run of anybody. `ram_taken`,
    `cores_busy` and `runs` are this user's live runs, which `caps` limit; `whose` names them, `others` whose else's
    have reserved memory.
    """

    cores: int
    gpus: tuple[Gpu, ...] = ()
    ram_free: int | None = None
    ram_unpromised: int | None = None
    ram_taken: int = 0
    disk_free: int | None = None
    cores_busy: int = 0
    runs: int = 0
    whose: str = ""
    others: str = ""
    caps: MachineLimits = field(default_factory=MachineLimits)

    def without(self, claim: Claim, gpu: str) -> Headroom:
        """What is left once a run with `claim` begins, on `gpu`."""
        return replace(
            self,
            gpus=tuple(promised(it, claim.vram_bytes) if it.uuid == gpu else it for it in self.gpus),
            ram_free=None if self.ram_free is None else self.ram_free - claim.ram_bytes,
            ram_unpromised=None if self.ram_unpromised is None else self.ram_unpromised - claim.ram_bytes,
            ram_taken=self.ram_taken + claim.ram_bytes,
            cores_busy=self.cores_busy + claim.cores,
            runs=self.runs + 1,
        )

    def gpus_of(self, run: QueuedRun) -> list[Gpu]:
        """The GPUs that `run` may use."""
        return [gpu for gpu in self.gpus if gpu.uuid in run.gpus]

    def capped(self, gpus: Sequence[Gpu]) -> list[Gpu]:
        """`gpus` with no more free than the machine's limit leaves."""
        most = self.caps.vram
        if most is None:
            return list(gpus)
        left = [(gpu, most - gpu.taken) for gpu in gpus]
        return [structs.replace(gpu, free=cap if gpu.free is None else min(gpu.free, cap)) for gpu, cap in left]

    def choose_for(self, run: QueuedRun, gpus: Sequence[Gpu]) -> Gpu | None:
        """The one of `gpus` for `run`, with what its own limits ask for beside what it needs."""
        counts = (run.limits.runs_per_gpu, self.caps.runs_per_gpu)
        most = min((it for it in counts if it is not None), default=None)
        return choose(self.capped(gpus), max(run.claim.vram_bytes, run.limits.vram_free), most)


class Gpu(Struct, frozen=True):
    """One GPU as a run finds it: `free` and `total` in bytes, `runs` that live on it, and how `busy` (0..1) it will be.

    `taken` bytes are claimed by those runs. `names` are this user's runs on it, `elsewhere` counts those at other runs
    roots; `others` says of each other user how many runs there have claimed how many bytes.
    """

    uuid: str
    total: int | None
    free: int | None
    runs: int = 0
    busy: float = 0.0
    taken: int = 0
    names: tuple[str, ...] = ()
    elsewhere: int = 0
    others: tuple[tuple[str, int, int], ...] = ()


def choices(device: str, visible: str | None, uuids: Sequence[str]) -> tuple[str, ...]:
    """The GPUs of `uuids` (in the driver's order) that `run.device` leaves open, seen through `CUDA_VISIBLE_DEVICES`.

    One where somebody chose by number, none for the CPU and where what is visible cannot be told.
    """
    if device not in ("auto", "cuda"):
        only = gpu_for(device, visible, uuids)
        return () if only is None else (only,)
    seen = _seen(visible, uuids)
    # A word that means nothing here may be part of a GPU, or another machine's: CUDA ends the list there.
    known = [uuid for uuid in seen if uuid is not None]
    return tuple(dict.fromkeys(known)) if len(known) == len(seen) else ()


def gpu_for(device: str, visible: str | None, uuids: Sequence[str]) -> str | None:
    """The GPU of `uuids` (in the driver's order) that `run.device` means where `CUDA_VISIBLE_DEVICES` is `visible`.

    None for the CPU, and for what cannot be told.
    """
    kind, _, index = device.partition(":")
    if kind not in ("auto", "cuda"):
        return None
    seen = _seen(visible, uuids)
    place = int(index) if index.isdigit() else 0
    return seen[place] if place < len(seen) else None


def choose(gpus: Iterable[Gpu], need_bytes: int, most_runs: int | None = None) -> Gpu | None:
    """Of the GPUs with room for `need_bytes` and one more run, the least busy, then the one with most free memory."""
    fitting = [gpu for gpu in gpus if gpu.free is None or gpu.free >= need_bytes]
    fitting = [gpu for gpu in fitting if most_runs is None or gpu.runs < most_runs]
    # Equal ones keep the driver's order: `min` takes the first.
    return min(fitting, key=lambda gpu: (round(gpu.busy / _STEP), -(gpu.free or 0)), default=None)


def scarce(gpus: Iterable[Gpu]) -> Gpu | None:
    """The GPU to keep for a run that finds no room: the one with most free memory, which has it soonest."""
    return max(gpus, key=lambda gpu: (gpu.free or 0, -gpu.runs), default=None)


def promised(gpu: Gpu, need_bytes: int) -> Gpu:
    """`gpu` once another run was given `need_bytes` of it."""
    free = None if gpu.free is None else gpu.free - need_bytes
    return structs.replace(gpu, free=free, runs=gpu.runs + 1, busy=gpu.busy + DUTY, taken=gpu.taken + need_bytes)


def _seen(visible: str | None, uuids: Sequence[str]) -> list[str | None]:
    return list(uuids) if visible is None else [_shown(word.strip(), uuids) for word in visible.split(",")]


def _shown(word: str, uuids: Sequence[str]) -> str | None:
    if word.isdigit():
        return uuids[int(word)] if int(word) < len(uuids) else None
    return next((uuid for uuid in uuids if word and uuid.startswith(word)), None)


_MACHINE = ""
_NAMED = 3
LIMITS_FILE = "limits.toml"
OF_CORES = " cores and you have "
"""What each sentence says that finds too few cores for the runs."""


class Admit(Struct, frozen=True):
    """It begins, on the GPU `gpu` (UUID) or on none."""

    gpu: str = ""


class Wait(Struct, frozen=True):
    """It waits: `why` is a sentence that goes on after its name."""

    why: str


def decide_queue(line: Sequence[QueuedRun], headroom: Headroom) -> dict[str, Admit | Wait]:
    """What becomes of each run in `line` now, by id, those in front first."""
    said: dict[str, Admit | Wait] = {}
    kept: dict[str, str] = {}
    for run in sorted(line, key=lambda it: it.place):
        if run.elsewhere:
            said[run.id] = Wait(run.held) if run.held else Admit()
            continue
        said[run.id] = turn = Wait(run.held) if run.held else _decide(run, headroom, kept)
        if isinstance(turn, Admit):
            headroom = headroom.without(run.claim, turn.gpu)
    return said


def _decide(run: QueuedRun, headroom: Headroom, kept: dict[str, str]) -> Admit | Wait:
    """What becomes of `run`. `kept` says what is kept (a GPU's UUID, "" the whole machine), and for whom."""
    if _MACHINE in kept:
        return Wait(f"waits behind {kept[_MACHINE]}")
    if lack := _machine_shortage(run, headroom):
        kept[_MACHINE] = _in_short(run, lack)
        return Wait(lack)
    gpus, need = headroom.gpus_of(run), run.claim.vram_bytes
    # One too small for it is of no use to it, however long it is kept.
    able = [gpu for gpu in gpus if gpu.total is None or gpu.total >= need]
    open_ = [gpu for gpu in able if gpu.uuid not in kept]
    if able and not open_:
        return Wait(f"waits behind {kept[able[0].uuid]}")
    if gpus and choose(headroom.capped(open_), need, headroom.caps.runs_per_gpu) is None:
        lack, wanted = _gpu_shortage(run, open_, headroom), scarce(headroom.capped(open_))
        if wanted is not None:
            kept[wanted.uuid] = _in_short(run, lack)
        return Wait(lack)
    if lack := _own_limit_shortage(run, headroom, open_):
        return Wait(lack)
    chosen = headroom.choose_for(run, open_)
    return Admit("" if chosen is None else chosen.uuid)


def _in_short(run: QueuedRun, lack: str) -> str:
    return f"{run.name}, which {lack.partition(':')[0]}"


def never_fits(run: QueuedRun, headroom: Headroom) -> Iterator[str]:
    """Why `run` can never begin, however long it waits: sentences with numbers.

    Whether the machine has the memory at all is said by `fleet.capacity.machine.assess`, with what would fit.
    """
    if run.elsewhere:
        return
    claim, caps = run.claim, headroom.caps
    yield from _beyond(claim.ram_bytes, "memory", None, "", caps.ram, "gives to runs")
    gpus = headroom.gpus_of(run)
    totals = [gpu.total for gpu in gpus if gpu.total is not None]
    most = max(totals) if gpus and len(totals) == len(gpus) else None
    has = "the largest GPU that it may use has" if len(gpus) > 1 else "its GPU has"
    yield from _beyond(claim.vram_bytes if gpus else 0, "GPU memory", most, has, caps.vram, "gives to runs of a GPU")
    if caps.cores is not None and claim.cores > caps.cores:
        yield f"keeps {claim.cores} cores busy and {LIMITS_FILE} gives {caps.cores} to runs"
    if run.limits.cores_free > headroom.cores:
        yield f"keep.limits.cores_free asks for {run.limits.cores_free} cores and this machine has {headroom.cores}"


def size_of(size_bytes: int, *, up: bool = False) -> str:
    """`size_bytes` in words, what is needed rounded `up` and what is there down, so that a lack always shows."""
    rounded = math.ceil if up else math.floor
    if size_bytes < 1 << 30:
        return f"{max(0, rounded(size_bytes / (1 << 20)))} MiB"
    return f"{rounded(size_bytes * 10 / (1 << 30)) / 10:.1f} GiB"


def _beyond(need: int, what: str, total: int | None, has: str, cap: int | None, gives: str) -> Iterator[str]:
    if total is not None and need > total:
        yield f"needs about {size_of(need, up=True)} of {what} and {has} {size_of(total)}"
    elif cap is not None and need > cap:
        yield f"needs about {size_of(need, up=True)} of {what} and {LIMITS_FILE} {gives} {size_of(cap)}"


def _machine_shortage(run: QueuedRun, headroom: Headroom) -> str:
    """What the machine as a whole cannot give `run` now; empty when there is enough."""
    caps, need = headroom.caps, run.claim.ram_bytes
    if caps.runs is not None and headroom.runs >= caps.runs:
        return (
            f"waits for another run's end: {LIMITS_FILE} allows {caps.runs} at once, and as many are live"
            f"{_of(headroom)}"
        )
    if caps.cores is not None and headroom.cores_busy and headroom.cores_busy + run.claim.cores > caps.cores:
        left = max(0, caps.cores - headroom.cores_busy)
        return (
            f"waits for {_cores(run.claim.cores)}: {left} of the {caps.cores} that {LIMITS_FILE} gives to runs are free"
            f"{_of(headroom)}"
        )
    if headroom.ram_free is not None and need > headroom.ram_free:
        free = size_of(max(0, headroom.ram_free))
        there = f"{free} are free and not reserved for other runs{_of(headroom, others=True)}"
        return f"waits for {size_of(need, up=True)} of memory: {there}"
    if caps.ram is not None and headroom.ram_taken + need > caps.ram:
        left = max(0, caps.ram - headroom.ram_taken)
        given = f"{size_of(left)} are left of the {size_of(caps.ram)} that {LIMITS_FILE} gives to runs"
        return f"waits for {size_of(need, up=True)} of memory: {given}{_of(headroom)}"
    return ""


def _gpu_shortage(run: QueuedRun, gpus: Sequence[Gpu], headroom: Headroom) -> str:
    """Why none of `gpus` has room for `run`."""
    caps, need = headroom.caps, run.claim.vram_bytes
    most = caps.runs_per_gpu
    if most is not None and all(gpu.runs >= most for gpu in gpus):
        where = "it" if len(gpus) == 1 else "each"
        return f"waits for a GPU: {LIMITS_FILE} allows {most} runs on one, and {where} has as many{_on(gpus)}"
    capped = headroom.capped(gpus)
    free = max((gpu.free or 0 for gpu in capped), default=0)
    where = (
        "is free and not reserved for other runs"
        if len(gpus) == 1
        else "is free and not reserved for other runs on any GPU"
    )
    bound = f" under {LIMITS_FILE}" if [gpu.free for gpu in capped] != [gpu.free for gpu in gpus] else ""
    most_free = f"no more than {size_of(max(0, free))} {where}{bound}"
    most_free += _on(gpus, others=True)
    return f"waits for {size_of(need, up=True)} of GPU memory: {most_free}; run.device = 'cpu' needs none"


def _own_limit_shortage(run: QueuedRun, headroom: Headroom, gpus: Sequence[Gpu]) -> str:
    """Which of its own limits keeps `run` from beginning although the machine could carry it."""
    own = run.limits
    if headroom.disk_free is not None and headroom.disk_free < own.disk_free:
        asked = f"keep.limits.disk_free asks for {_decimal(own.disk_free)}"
        return f"waits for the disk: {_decimal(headroom.disk_free)} free, {asked}"
    if (
        own.ram_free
        and headroom.ram_unpromised is not None
        and headroom.ram_unpromised < max(own.ram_free, run.claim.ram_bytes)
    ):
        asked = f"keep.limits.ram_free asks for {_decimal(own.ram_free)}"
        free = _decimal(max(0, headroom.ram_unpromised))
        whose = _of(headroom, others=True)
        return f"waits for memory: {free} are free and not reserved for other runs, {asked}{whose}"
    if own.cores_free and headroom.cores_busy and headroom.cores - headroom.cores_busy < own.cores_free:
        busy = f"runs keep {min(headroom.cores, headroom.cores_busy)} of {headroom.cores} busy"
        return f"waits for cores: {busy}, keep.limits.cores_free asks for {own.cores_free}{_of(headroom)}"
    if own.runs is not None and headroom.runs >= own.runs:
        allowed = f"keep.limits.runs allows {own.runs} with it"
        return f"waits for another run's end: {headroom.runs} are live, and {allowed}{_of(headroom)}"
    if gpus and headroom.choose_for(run, gpus) is None:
        words = [f"keep.limits.vram_free asks for {_decimal(own.vram_free)}"] if own.vram_free else []
        words += [f"keep.limits.runs_per_gpu allows {own.runs_per_gpu} with it"] if own.runs_per_gpu else []
        return f"waits for a GPU: {' and '.join(words)}{_on(gpus, others=bool(own.vram_free))}"
    return ""


def _of(headroom: Headroom, *, others: bool = False) -> str:
    """Whom the run waits for, in brackets: runs of its own user, and of `others` where they take of the same."""
    words = "; ".join(filter(None, (headroom.whose, headroom.others if others else "")))
    return f" ({words})" if words else ""


def own_words(names: Sequence[str], elsewhere: int) -> str:
    """Whom a run waits for that waits for its user's own: `yours: a, b, and 2 at your other runs roots`."""
    there = f"{elsewhere} at your other runs roots" if elsewhere else ""
    words = ", and ".join(filter(None, (listed(names), there)))
    return f"yours: {words}" if words else ""


def others_words(others: Iterable[tuple[str, int, int]]) -> str:
    """Who else has how many runs, which reserved how many bytes: `bob: 2 runs, 3.4 GiB`."""
    return "; ".join(f"{user}: {runs} run{'' if runs == 1 else 's'}, {size_of(size)}" for user, runs, size in others)


def listed(names: Sequence[str]) -> str:
    """The first of `names`, and how many more."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _on(gpus: Sequence[Gpu], *, others: bool = False) -> str:
    """Whom a run waits for that waits for one of `gpus`, in brackets as `_of`."""
    names = list(dict.fromkeys(name for gpu in gpus for name in gpu.names))
    by_user: dict[str, tuple[int, int]] = {}
    for user, runs, size_bytes in (each for gpu in gpus for each in gpu.others if others):
        before = by_user.get(user, (0, 0))
        by_user[user] = before[0] + runs, before[1] + size_bytes
    told = others_words((user, *of_them) for user, of_them in sorted(by_user.items()))
    words = "; ".join(filter(None, (own_words(names, sum(gpu.elsewhere for gpu in gpus)), told)))
    return f" ({words})" if words else ""


def _cores(count: int) -> str:
    return "1 core" if count == 1 else f"{count} cores"


def _decimal(size_bytes: int) -> str:
    """In the decimal units in which a preset's limit is written."""
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 10**9 else f"{size_bytes / 1e6:.0f} MB"


def assess_combined(
    specs: Sequence[Spec],
    machine: Machine,
    live: Sequence[Spec] = (),
    elsewhere: Sequence[Claim] = (),
    *,
    waits: bool = False,
    seen: Sequence[int | None] = (),
) -> Assessment:
    """What `machine` lacks for `specs` at once beside `live`, whose memory is not part of `machine.ram_free` any more.

    Runs `elsewhere` on the machine keep their cores busy too. With `waits` each begins when it can. `seen` are bytes
    of memory that runs like each of `specs` took, where that is known.

    Each spec is judged alone first, so that what it lacks by itself is said of it by name.
    """
    known = seen or [None] * len(specs)
    alone = [assess(spec, machine, waits=waits, seen_bytes=it) for spec, it in zip(specs, known, strict=True)]
    needed = sum(each.ram_bytes for each in alone)
    hard = [f"{spec.preset}: {lack}" for spec, each in zip(specs, alone, strict=True) for lack in each.hard]
    if not hard and not waits and machine.ram_free is not None and needed > machine.ram_free:
        hard.append(_memory(alone, needed, machine.ram_free))
    warnings = [f"{spec.preset}: {word}" for spec, each in zip(specs, alone, strict=True) for word in each.warnings]
    warnings += _cores_wanted(specs, machine.cores, live, [claim for claim in elsewhere if claim.cores])
    return Assessment(tuple(dict.fromkeys(hard)), tuple(dict.fromkeys(warnings)), needed)


def _memory(alone: Sequence[Assessment], needed: int, free: int) -> str:
    left, fitting = free, 0
    for each in alone:
        left -= each.ram_bytes
        if left < 0:
            break
        fitting += 1
    return (
        f"{len(alone)} runs at once need about {needed / MIB:,.0f} MiB of memory in all and {free / MIB:,.0f} MiB are "
        f"free; launch the first {fitting} now, or make them smaller"
    )


def _cores_wanted(specs: Sequence[Spec], cores: int, live: Sequence[Spec], elsewhere: Sequence[Claim]) -> list[str]:
    turns = [spec.keep.limits.group_runs for spec in specs]
    if len(specs) > 1 and None in turns:
        return _in_turns(specs, cores, live, elsewhere)
    specs = specs[: max(it or len(specs) for it in turns)] if turns else specs
    runs = len(specs) + len(live) + len(elsewhere)
    wanted = sum(busy_cores(spec, cores) for spec in (*specs, *live))
    wanted += sum(min(cores, claim.cores) for claim in elsewhere)
    if runs == 1 or wanted <= cores:
        return []
    threads = max((spec.run.threads or 1 for spec in specs), default=1)
    remedy = "; run.threads = 1 slows them least" if threads > 1 else ""
    others = [f"{len(live)} of them live or queued already"] if live else []
    others += [f"{len(elsewhere)} of them at other runs roots"] if elsewhere else []
    beside = f", {' and '.join(others)}," if others else ""
    unhurried = max(1, runs * cores // wanted)
    waiting = f"; launch -j {unhurried} lets the others wait" if len(specs) > unhurried else ""
    sentence = (
        f"{runs} runs{beside} need {wanted}{OF_CORES}{cores}: each runs at about {cores / wanted:.0%} speed, "
        f"{unhurried} would run at full speed{remedy}{waiting}"
    )
    return [sentence]


def without_older_counts(sentences: Iterable[str]) -> tuple[str, ...]:
    """Each once, and of those about cores the last alone: it counts the runs that those before it let begin."""
    known = tuple(dict.fromkeys(sentences))
    newest = next((it for it in reversed(known) if OF_CORES in it), None)
    return tuple(it for it in known if OF_CORES not in it or it == newest)


def _in_turns(specs: Sequence[Spec], cores: int, live: Sequence[Spec], elsewhere: Sequence[Claim]) -> list[str]:
    """That of a launch of many only some live at once, which is what a launch does that says no number."""
    wanted = sum(busy_cores(spec, cores) for spec in specs)
    busy = sum(busy_cores(spec, cores) for spec in live) + sum(min(cores, claim.cores) for claim in elsewhere)
    if busy + wanted <= cores:
        return []
    left, fitting = cores - busy, 0
    for spec in specs:
        left -= busy_cores(spec, cores)
        fitting += left >= 0
    beside = f", of which other runs keep {min(busy, cores)} busy" if busy else ""
    at_once = "one begins now" if fitting < 2 else f"{fitting} begin now"
    needed = f"{len(specs)} runs need {wanted}{OF_CORES}{cores}{beside}"
    later = "the others when cores are free, so that all run at full speed; launch -j N has N share them"
    return [f"{needed}: {at_once}, {later}"]
