"""What the machine can carry beside the live runs, those of other runs roots and users included, and on which GPU; and
whether the net of a spec is faster on the CPU or on the GPU.

Live runs count with what they keep busy and the memory that they will still take: a run that has just begun holds
little. What another user has reserved is warned of and never refuses a launch: anybody may write anything there. On a
machine with several GPUs an attempt's is written into its order; what a shell or a spec chose by number stays.

Which device is faster is measured once in a short process of the run's own Python, which keeps it beside the journals
of tunes, for the same net on the same machine. It is a hint: whatever goes wrong with it is no reason to refuse a run.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path

import msgspec
from msgspec import structs

from mission_tui.errors import PresetError
from mission_tui.fleet.capacity import admission
from mission_tui.fleet.capacity.admission import assess_combined, others_words, own_words, size_of
from mission_tui.fleet.capacity.demand import (
    MIB,
    SPARE_SHARE,
    Claim,
    Machine,
    claim_for,
    claim_with_usage,
    outstanding_ram,
    outstanding_vram,
)
from mission_tui.fleet.events.processes import Placement
from mission_tui.fleet.specs.algorithm import replay_buffer_of
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.tuning.record import DeviceSpeeds
from mission_tui.fleet.views.snapshot import GpuMeters
from mission_tui.records import tuning_files
from mission_tui.records.runs.attempt import LaunchOrder
from mission_tui.records.tuning_files import kept_speeds, measured_of
from mission_tui.supervisor.host.children import Task, TaskError, run_task
from mission_tui.supervisor.host.process_files import rss_bytes
from mission_tui.supervisor.launchers.order import VISIBLE, Caller, as_module, needs_no_preflight, with_spec_env
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.live_run import LiveRun
from mission_tui.supervisor.runs.machine_state import DECISIVE_S, MachineState
from mission_tui.supervisor.runs.registry import Runs


async def refresh_reservations(core: Core) -> None:
    """Know what others have reserved by now, before another attempt is checked against it."""
    async with core.machine.other_supervisors.exclusive(lambda: claims_of(core)):
        pass


def check_machine(
    core: Core,
    specs: Sequence[Spec],
    ending: LiveRun | None = None,
    visible: str | None = None,
    *,
    waits: bool = False,
) -> tuple[str, ...]:
    """Warnings about what the machine lacks for all of `specs` beside the live runs. Raises `PresetError`.

    The run that is `ending` to make room counts as gone; one that is held computes nothing; one whose spec cannot be
    read counts for nothing. `visible` is `CUDA_VISIBLE_DEVICES` of `specs`. With `waits` they begin when
    there is room, and lack only what there never is.
    """
    here = [spec for spec in specs if _is_here(core, spec)]
    if specs and not here:
        # However full it is here, that says nothing of them.
        return ()
    specs = here
    gpus, gpu = core.machine.gpu.gpus, core.machine.gpu.present()
    own = claims_of(core, ending)
    ours = core.machine.reserved(trusted=True)
    foreign = core.machine.reserved(trusted=False)
    kept = outstanding_ram(ours)
    freed = 0 if ending is None else _resident_bytes(ending)
    machine = core.machine.host.machine(gpu, len(gpus) if gpus else None, outstanding_ram(own) + kept - freed)
    live = [(run, run.spec) for run in _live_here(core) if run.spec is not None and run is not ending]
    computing = list(_computing(core, live))
    peaks = map(core.machine.peaks.of, specs)
    seen = [None if peak is None else peak.rss_bytes for peak in peaks]
    together = assess_combined(specs, machine, computing, [*ours, *foreign], waits=waits, seen=seen)
    if together.hard:
        for_others = (
            f"; {kept / MIB:,.0f} MiB more are reserved for runs at your other runs roots" if kept and not waits else ""
        )
        raise PresetError("; ".join(together.hard) + for_others)
    if waits:
        return together.warnings
    memory = _memory_of_others(core.machine, machine, together.ram_bytes)
    return (
        *together.warnings,
        *memory,
        *_gpu_memory(core.machine, coming_claims(core, specs, visible), [*own, *ours, *foreign]),
    )


def claims_of(core: Core, ending: LiveRun | None = None) -> tuple[Claim, ...]:
    """What the runs here, without the one that is `ending`, and launches that are being checked have been promised."""
    pending = (claim for claims in core.machine.other_supervisors.pending.values() for claim in claims)
    return (*live_claims(core, ending), *pending)


def coming_claims(core: Core, specs: Sequence[Spec], visible: str | None) -> tuple[Claim, ...]:
    """What runs of `specs` are going to take, by estimate."""
    return tuple(
        claim_for(
            spec,
            core.machine.host.cores,
            _gpu(core.machine, spec, spec.run.env.get(VISIBLE, visible)),
            core.machine.peaks.of(spec),
        )
        for spec in specs
        if _is_here(core, spec)
    )


def live_claims(core: Core, ending: LiveRun | None) -> list[Claim]:
    """Those of the runs that have begun here, but for the one that is `ending`."""
    return [claim for _, claim in _claims_of_runs(core, ending)]


def _claims_of_runs(core: Core, ending: LiveRun | None = None) -> list[tuple[LiveRun, Claim]]:
    known = [(run, run.spec) for run in _live_here(core) if run is not ending]
    claims = [(run, _claim(core, run, spec)) for run, spec in known if spec is not None]
    return [(run, claim) for run, claim in claims if claim is not None]


def _is_here(core: Core, spec: Spec) -> bool:
    """Whether a run of `spec` takes anything of this machine."""
    return core.launcher_for(spec).can.here


def _live_here(runs: Runs) -> list[LiveRun]:
    return [run for run in runs.live.values() if run.launcher.can.here]


def _computing(core: Core, live: Iterable[tuple[LiveRun, Spec]]) -> Iterator[Spec]:
    """Those of `live` that compute, or do once the machine has room: not what is held, nor what waits for its group or
    for free cores.
    """
    alive = Counter(core.store.run(run.id).journal.group for run in core.live.values() if run.attempt)
    for run, spec in live:
        journal, most = core.store.run(run.id).journal, spec.keep.limits.group_runs
        if journal.held:
            continue
        if not run.attempt and journal.group is not None:
            if most is None or alive[journal.group] >= most:
                continue
            alive[journal.group] += 1
        yield spec


def _claim(core: Core, run: LiveRun, spec: Spec) -> Claim | None:
    """None for a run that waits for its turn: nothing was promised to it yet."""
    if run.attempt == 0:
        return None
    known = core.store.run(run.id)
    row = known.metrics.row
    trainer = run.job_status.pids.trainer
    claim = claim_for(
        spec, core.machine.host.cores, _gpu(core.machine, spec, run.visible_gpus), core.machine.peaks.of(spec)
    )
    return claim_with_usage(
        structs.replace(claim, cores=0) if known.journal.held else claim,
        # A replay buffer takes its memory as it fills.
        trains=row is not None and row.attempt == run.attempt and replay_buffer_of(spec) is None,
        held_bytes=_resident_bytes(run),
        vram_held_bytes=None if trainer is None or not core.machine.gpu.gpus else _vram(core.machine, trainer),
    )


def _vram(state: MachineState, pid: int) -> int | None:
    return state.holders.bytes_of(pid, state.gpu.held) if pid in state.gpu.held else 0


def _gpu(state: MachineState, spec: Spec, visible: str | None) -> str | None:
    return admission.gpu_for(spec.run.device, visible, [gpu.uuid for gpu in state.gpu.gpus])


def _memory_of_others(state: MachineState, machine: Machine, needed: int) -> Iterator[str]:
    """What other users have reserved, where that and `needed` bytes are more than there is."""
    wanted = {each.user: outstanding_ram(each.claims) for each in state.other_supervisors.others if not each.trusted}
    promised = sum(wanted.values())
    if machine.ram_free is not None and promised and needed > machine.ram_free - promised:
        whose = ", ".join(sorted(user for user, size_bytes in wanted.items() if size_bytes))
        yield (
            f"about {needed / MIB:,.0f} MiB of memory are needed and {machine.ram_free / MIB:,.0f} MiB are free, but "
            f"runs of {whose} that have just begun will take {promised / MIB:,.0f} MiB of it"
        )


def _gpu_memory(state: MachineState, wanted: Sequence[Claim], beside: Sequence[Claim]) -> Iterator[str]:
    for place, gpu in enumerate(state.gpu.gpus):
        needed, promised = outstanding_vram(wanted, gpu.uuid), outstanding_vram(beside, gpu.uuid)
        if gpu.memory_total is None or gpu.memory_used is None or not needed:
            continue
        free = gpu.memory_total - gpu.memory_used
        if needed > free - promised:
            others = f", {promised / MIB:,.0f} MiB of them promised to runs that have just begun" if promised else ""
            yield (
                f"GPU {place} has {free / MIB:,.0f} MiB free{others}, and about {needed / MIB:,.0f} MiB are needed: it "
                "may run out of memory; run.device = 'cpu' needs none"
            )


def _resident_bytes(run: LiveRun) -> int:
    """What the processes of the run hold; what they share is counted once for each, which is little."""
    pids = (run.job_status.pids.keeper, run.job_status.pids.trainer, *run.workers)
    return sum(rss_bytes(pid) or 0 for pid in pids if pid is not None)


def _own_runs(core: Core, elsewhere: int) -> str:
    """Whom a run waits for that waits for its user's own: `yours: a, b, and 2 at your other runs roots`."""
    return own_words([core.name_of(run.id) for run in _live_here(core) if run.attempt], elsewhere)


def _others_runs(core: Core) -> str:
    """Who else has runs on this machine, and how much memory they take: `bob: 2 runs, 3.4 GiB`."""
    claims = _claims_of_others(core)
    return others_words((user, len(its), sum(it.ram_bytes for it in its)) for user, its in claims if its)


def _claims_of_others(core: Core) -> list[tuple[str, list[Claim]]]:
    """Of each other user of this machine, by name, what that user's runs were promised."""
    by_user: dict[str, list[Claim]] = {}
    for each in core.machine.other_supervisors.others:
        if not each.own:
            by_user.setdefault(each.user, []).extend(each.claims)
    return sorted(by_user.items())


def _with_names(
    core: Core, gpu: admission.Gpu, here: Sequence[tuple[LiveRun, Claim]], reserved: Sequence[Claim]
) -> admission.Gpu:
    """`gpu` with whose runs are on it: ours `here`, how many of `reserved` at other roots, and other users'."""
    names = [core.name_of(run.id) for run, claim in here if _uses(claim, gpu)]
    others = [(user, [it for it in claims if _uses(it, gpu)]) for user, claims in _claims_of_others(core)]
    return structs.replace(
        gpu,
        names=tuple(names),
        elsewhere=sum(_uses(claim, gpu) for claim in reserved),
        others=tuple((user, len(its), sum(it.vram_bytes for it in its)) for user, its in others if its),
    )


def _uses(claim: Claim, gpu: admission.Gpu) -> bool:
    return claim.gpu == gpu.uuid and claim.vram_bytes > 0


def headroom_now(core: Core, caps: admission.MachineLimits) -> admission.Headroom:
    """What is left beside the live runs of every runs root of this user, of whose claims the ledger tells. Root's are
    promised their memory too, and count towards no limit of this user.
    """
    reserved = [claim for each in core.machine.other_supervisors.others if each.own for claim in each.claims]
    here = _claims_of_runs(core)
    live = [claim for _, claim in here]
    ours = [*live, *reserved]
    promised = [*live, *core.machine.reserved(trusted=True)]
    strangers = core.machine.reserved(trusted=False)
    machine = core.machine.host.machine(False, None)
    free = None if machine.ram_free is None else machine.ram_free - outstanding_ram(promised)
    return admission.Headroom(
        cores=core.machine.host.cores,
        gpus=tuple(_with_names(core, _gpu_headroom(gpu, promised), here, reserved) for gpu in core.machine.gpu.gpus),
        ram_free=None if free is None else free - int(SPARE_SHARE * (machine.ram_total or 0)),
        ram_unpromised=None if free is None else free - outstanding_ram(strangers),
        ram_taken=sum(claim.ram_bytes for claim in ours),
        disk_free=machine.disk_free,
        cores_busy=sum(min(core.machine.host.cores, claim.cores) for claim in ours),
        runs=len(ours),
        whose=_own_runs(core, len(reserved)),
        others=_others_runs(core),
        caps=caps,
    )


def queued_run(
    core: Core, id_: str, name: str, spec: Spec, visible: str | None, since_t: float, held: str = ""
) -> admission.QueuedRun:
    """A run of `spec` that would begin; `visible` is the `CUDA_VISIBLE_DEVICES` that it would have."""
    if not _is_here(core, spec):
        return admission.QueuedRun(id=id_, name=name, claim=Claim(), since_t=since_t, held=held, elsewhere=True)
    uuids = [gpu.uuid for gpu in core.machine.gpu.gpus]
    wants = spec.run.command is None and spec.run.device != "cpu"
    open_ = admission.choices(spec.run.device, visible, uuids) if wants else ()
    if wants and not uuids and core.machine.gpu.present():
        held = held or "waits for the first word about the GPUs"
    claim = claim_for(spec, core.machine.host.cores, open_[0] if open_ else None, core.machine.peaks.of(spec))
    return admission.QueuedRun(
        id=id_, name=name, claim=claim, gpus=open_, limits=spec.keep.limits, since_t=since_t, held=held
    )


def _gpu_headroom(gpu: GpuMeters, claims: Sequence[Claim]) -> admission.Gpu:
    here = [claim for claim in claims if claim.gpu == gpu.uuid and claim.vram_bytes]
    free = None
    if gpu.memory_total is not None and gpu.memory_used is not None:
        free = gpu.memory_total - gpu.memory_used - outstanding_vram(here, gpu.uuid)
    coming = sum(claim.vram_held_bytes < claim.vram_bytes for claim in here)
    seen = gpu.util.mean / 100.0 if gpu.util.mean is not None else admission.DUTY * (len(here) - coming)
    taken = sum(claim.vram_bytes for claim in here)
    return admission.Gpu(gpu.uuid, gpu.memory_total, free, len(here), seen + admission.DUTY * coming, taken)


ORDER, AS_LISTED = "CUDA_DEVICE_ORDER", "PCI_BUS_ID"


def with_placement(core: Core, run: LiveRun, order: LaunchOrder) -> tuple[LaunchOrder, Placement | None]:
    """The order as it is carried out, and the GPU that was chosen, if one was. Raises `StorageError`."""
    chosen_by_queue = run.take_gpu()
    uuids = [gpu.uuid for gpu in core.machine.gpu.gpus]
    if run.spec is None or run.spec.run.command is not None or len(uuids) < 2 or order.gpu or not run.launcher.can.here:
        return order, None
    device, visible = run.spec.run.device, order.env.get(VISIBLE)
    open_ = admission.choices(device, visible, uuids)
    if len(open_) < 2:
        if ":" in device and visible is None and ORDER not in order.env:
            # CUDA counts the fastest first; whoever wrote a number has read it where GPUs are listed by their slots.
            order = structs.replace(order, env=order.env | {ORDER: AS_LISTED})
            core.seals.write_order(run.dir, order)
        return order, None
    gpus = [gpu for gpu in headroom_now(core, admission.MachineLimits()).gpus if gpu.uuid in open_]
    by_uuid = {gpu.uuid: gpu for gpu in gpus}
    gpu = by_uuid.get(chosen_by_queue) or _best(run, core.machine, gpus)
    order = structs.replace(order, env=order.env | {VISIBLE: gpu.uuid}, gpu=gpu.uuid, visible=visible)
    core.seals.write_order(run.dir, order)
    return order, Placement(gpu.uuid, uuids.index(gpu.uuid), _why(gpu, len(gpus)))


def _best(run: LiveRun, state: MachineState, gpus: list[admission.Gpu]) -> admission.Gpu:
    """For what somebody resumes, which does not wait: where there is room, or else most of it."""
    assert run.spec is not None
    need = claim_for(run.spec, state.host.cores, gpus[0].uuid, state.peaks.of(run.spec)).vram_bytes
    best = admission.choose(gpus, need) or admission.scarce(gpus)
    assert best is not None
    return best


def _why(gpu: admission.Gpu, count: int) -> str:
    free = "" if gpu.free is None else f", {size_of(max(0, gpu.free))} free and not reserved for other runs"
    runs = f"{gpu.runs} run{'' if gpu.runs == 1 else 's'} on it"
    return f"of {count} GPUs the calmest with room: {round(100 * gpu.busy)} % busy, {runs}{free}"


MOST_S, LAUNCH_S = 60.0, 20.0
"""torch, a driver's first call, a large net on one core; a launch does not wait for a hint as long as a check does, and
not at all where nothing of it is tried anyway: then it says what is known.
"""


async def device_speeds(
    core: Core, spec: Spec, caller: Caller, most_s: float = MOST_S, host: Mapping[str, str] | None = None
) -> DeviceSpeeds | None:
    """What is kept of such a net, else what is measured within `most_s` (0: nothing is); None without a GPU, and where
    it cannot be measured. `host` is this machine's fingerprint, where that is known.
    """
    if spec.run.command is not None:
        return None
    await core.machine.measure(DECISIVE_S)
    if not core.machine.gpu.gpus:
        return None
    home = with_spec_env(spec, caller)
    kept = await asyncio.to_thread(_kept, core.root, spec, home, host)
    if kept is not None or not most_s:
        return kept
    try:
        return await _measured(core.root, spec, home, most_s)
    except (TaskError, msgspec.ValidationError):
        return None


def _kept(root: Path, spec: Spec, home: Caller, host: Mapping[str, str] | None) -> DeviceSpeeds | None:
    """If the run's Python has the versions of this one; the process looks again with its own."""
    return kept_speeds(root, measured_of(spec, home.python, home.environ, host))


async def device_cautions(core: Core, specs: Sequence[Spec], caller: Caller) -> list[str]:
    """For those of `specs` that name a device of which the other one is faster. Where none is named the faster is taken
    anyway, so nothing is measured for it here.
    """
    named = [spec for spec in specs if spec.run.device != "auto"]
    if named:
        await core.machine.measure(DECISIVE_S)
    if not (named and core.machine.gpu.gpus):
        return []
    # Once for all of them: somewhere it takes a process that asks the driver.
    host = await asyncio.to_thread(tuning_files.host_fingerprint)
    cautions = []
    for spec in named:
        speeds = await device_speeds(core, spec, caller, 0.0 if needs_no_preflight(spec) else LAUNCH_S, host)
        if speeds is not None and (said := speeds.caution(spec.run.device)):
            cautions.append(f"{spec.preset}: {said}")
    return cautions


async def _measured(root: Path, spec: Spec, home: Caller, most_s: float) -> DeviceSpeeds | None:
    words, home = as_module(spec, home, "mission_tui.trainer.checking.device_speeds")
    stdin = msgspec.json.encode(spec) + b"\n" + msgspec.json.encode({"root": os.fsencode(root)})
    task = Task(argv=words, cwd=home.cwd, environ=home.environ, stdin=stdin, attended=True, limits=home.limits)
    async with aclosing(run_task(task, most_s)) as hearing:
        async for said in hearing:
            if "speeds" in said:
                return msgspec.convert(said["speeds"], DeviceSpeeds)
    return None
