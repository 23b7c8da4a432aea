"""Attempts as jobs of Ray, over REST: one submission an attempt, all of a cluster asked about by one list.

Ray places jobs and does not queue them well: one that waits a quarter of an hour fails. So what has no room yet waits
here, in the order in which it came, and is handed over when a node has room. Ray ends a job with three seconds of
grace, and every process of it at once; so a stop and a kill are words in the attempt's `signal` file, which its keeper
reads, and Ray's own stop comes only after the grace.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Literal

import msgspec

from mission_tui.errors import DamagedError, MissionError
from mission_tui.fleet.capacity.demand import MOST_CORES, busy_cores
from mission_tui.fleet.specs.spec import RaySpec, Spec
from mission_tui.paths import sha256
from mission_tui.records.runs.attempt import Handle, LaunchOrder, read_attempt_spec
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.launchers import Job, JobStatus, Reached, engine
from mission_tui.supervisor.launchers.order import keeper_words
from mission_tui.supervisor.launchers.ray_rest import (
    NEVER_PLACED,
    Address,
    Asked,
    Node,
    RayError,
    RayJob,
    address_in,
    call,
    job_path,
    place,
    read_jobs,
    read_nodes,
    submission,
    token_in,
    why_no_room,
)

RAY_LOG = "ray.log"
PASSED = "CUDA_VISIBLE_DEVICES,ROCR_VISIBLE_DEVICES,HIP_VISIBLE_DEVICES,ONEAPI_DEVICE_SELECTOR"
"""What Ray sets for a job and its trainer has to know."""

WAITING_POLL_S = 3.0
"""While a run waits for room, or for its end, Ray is asked so often."""

REPORT_S = 10.0
"""For so long after its submission a job may not be in what Ray says is in use."""

KILL_S = 10.0
"""How long the keeper has to carry out a kill before Ray is asked to."""

SAVE_GRACES = 4
"""As the keeper has it: a stop may take so many graces while a checkpoint grows."""

_NAME_CHARACTERS = 100


class RayKnown(engine.Known[RayJob]):
    """`url` is its cluster's. `contacted`: its cluster has answered since it waits. `kept` is the order until it has
    begun, for another submission; `tries` counts those. `node` is where it was reckoned to go at `handed_at`.
    """

    url: str = ""
    contacted: bool = False
    asked: Asked | None = None
    autoscales: bool = False
    kept: LaunchOrder | None = None
    tries: int = 0
    node: str = ""
    handed_at: float = float("-inf")
    grace_s: float = 30.0


class RayLauncher(engine.EngineLauncher[RayJob]):
    """What a supervisor has of Ray clusters; which one a run means is said by its address."""

    name = "ray"
    title = "Ray"
    log_name = RAY_LOG

    def __init__(self) -> None:
        super().__init__()
        self._tokens: dict[str, list[str]] = {}
        self._nodes: dict[str, list[Node]] = {}

    def submit(self, run: RunDir, order: LaunchOrder, digest: str) -> Handle:
        """Have the order wait for room. Raises `MissionError` for an address that is none."""
        spec = read_attempt_spec(run, order.attempt)
        environ = {**os.environ, **order.env}
        url = address_in(environ, spec.ray.address)
        token = token_in(environ)
        if token and token not in (kept := self._tokens.setdefault(url, [])):
            # Said by whoever launched last, and in memory alone.
            kept.insert(0, token)
        self._known[run.id] = RayKnown(
            run,
            order.attempt,
            order.nonce,
            order=order,
            digest=digest,
            url=url,
            asked=asked_of(spec),
            autoscales=spec.ray.autoscales,
            grace_s=order.grace_s,
            # One that goes on may wait for a head that is being restarted.
            contacted=order.attempt > 1,
        )
        self._hurry()
        return Handle(launcher=self.name, id="", submitted_t=time.time(), address=url)

    async def refresh(self, jobs: Sequence[Job]) -> None:
        """Ask each cluster for its jobs, hand over what has room, say what was asked. Raises `RayError`."""
        everybody = [known for known in self._known.values() if isinstance(known, RayKnown)]
        waits = any(known.wish or known.order for known in everybody)
        if not self._is_due(WAITING_POLL_S if waits else engine.POLL_S):
            return
        clusters = {known.url: [each for each in everybody if each.url == known.url] for known in everybody}
        outcomes = await asyncio.gather(
            *(self._ask_cluster(self._at(url), known) for url, known in clusters.items()), return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _ask_cluster(self, at: Address, members: list[RayKnown]) -> None:
        try:
            found = read_jobs(await self._beside(call, at, "GET", "/api/jobs/"))
            nodes = (
                await self._ask_nodes(at) if any(known.order or _has_news(known, found) for known in members) else []
            )
        except RayError as error:
            for known in members:
                if known.order is not None and not known.contacted:
                    self._refuse(known, str(error))
                elif known.order is not None:
                    known.refused = f" ({error})"
            if at.token in self._tokens.get(at.url, ()) and error.unauthorised:
                # A token that does not open it must not shut out those who have the right one.
                self._tokens[at.url].remove(at.token)
            if any(known.order is not None or known.number for known in members):
                raise
            return
        for known in members:
            known.contacted = True
            known.refused = ""
            self._take(known, self._named(known, found))
        waiting = [known for known in members if known.order is not None]
        if waiting and nodes:
            await self._place(at, waiting, members, nodes)
        await asyncio.gather(*(self._carry_out(at, known) for known in members if known.wish))

    async def _ask_nodes(self, at: Address) -> list[Node]:
        listed, status = await asyncio.gather(
            self._beside(call, at, "GET", "/api/v0/nodes?detail=1&limit=10000"),
            self._beside(call, at, "GET", "/api/cluster_status"),
        )
        self._nodes[at.url] = nodes = read_nodes(listed, status)
        return nodes

    def _named(self, known: RayKnown, found: Mapping[str, RayJob]) -> RayJob | None:
        """The job of the attempt, the newest of several submissions, with the name of its node."""
        job = found.get(known.number or job_number(known))
        if job is None or not job.node_id:
            return job
        name = next((node.name for node in self._nodes.get(known.url, ()) if node.id == job.node_id), "")
        return msgspec.structs.replace(job, node=name)

    async def _place(self, at: Address, waiting: list[RayKnown], members: list[RayKnown], nodes: list[Node]) -> None:
        """Hand over, in order, what fits; who does not fit now keeps the nodes that could carry it."""
        now = time.monotonic()
        for known in members:
            where = known.job.node_id if known.job is not None and known.job.node_id else known.node
            if known.asked is not None and known.order is None and now - known.handed_at < REPORT_S:
                for node in nodes:
                    if node.id == where:
                        node.take(known.asked)
        held: set[str] = set()
        chosen = []
        for known in waiting:
            assert known.asked is not None
            found = place(known.asked, nodes, held)
            known.node = "" if found is None else found.id
            if found is not None or known.autoscales:
                chosen.append(known)
            else:
                known.refused = why_no_room(known.asked, nodes)
        await asyncio.gather(*(self._hand_over(at, known) for known in chosen))

    async def _hand_over(self, at: Address, known: RayKnown) -> None:
        order = known.order
        if order is None or known.asked is None:
            return
        known.sending = True
        try:
            number = job_number(known)
            env_vars = {engine.SECRETS: engine.half_of_secrets(known.run, order)}
            said = submission(
                number,
                entrypoint(known.run, order, known.digest),
                known.asked,
                env_vars,
                {"mission_tui_run": known.run.id, "mission_tui_attempt": str(order.attempt)},
            )
            await self._beside(call, at, "POST", "/api/jobs/", said)
        except RayError as error:
            if "already exists" in str(error):
                # The answer to an earlier submission was lost.
                self._handed(known, order, number)
            elif error.unreached or (error.sent and "answered 500" not in str(error)):
                # Its head answered a moment ago; or it may have it all the same: the next list tells, and a second one
                # of this name is refused.
                known.refused = f" ({error})"
            else:
                self._refuse(known, str(error))
        except (MissionError, DamagedError, OSError) as error:
            self._refuse(known, str(error))
        else:
            self._handed(known, order, number)
        finally:
            known.sending = False

    def _handed(self, known: RayKnown, order: LaunchOrder, number: str) -> None:
        known.kept, known.handed_at = order, time.monotonic()
        self._accepted(known, number)

    def _take(self, known: engine.Known[RayJob], found: RayJob | None) -> None:
        assert isinstance(known, RayKnown)
        if known.dropped:
            return
        begun = known.run.attempt(known.attempt).identity.exists()
        if begun:
            known.kept = None
        placeless = found is not None and found.error in NEVER_PLACED and not begun
        if placeless and known.kept is not None and known.wish is None:
            # Somebody else took the room, and Ray has waited for another in vain.
            known.order, known.kept, known.number, known.job = known.kept, None, "", None
            known.tries += 1
            return
        super()._take(known, found)
        forgotten = found is None and self._is_lost(known)
        if forgotten or (known.wish and found is not None and not (found.waits or found.runs)):
            known.find_heartbeat()

    def _handle(self, known: engine.Known[RayJob], number: str) -> Handle:
        assert isinstance(known, RayKnown)
        return Handle(launcher=self.name, id=number, submitted_t=time.time(), address=known.url)

    def _why_kept(self, known: engine.Known[RayJob]) -> str:
        said = known.refused
        return said if said.startswith("waits") else super()._why_kept(known)

    def poll(self, job: Job) -> JobStatus:
        """As for every engine; one that was taken from the queue is gone, though Ray may list it for a while."""
        known = self._of(job)
        files = job.dir.attempt(job.attempt)
        if known.dropped and not files.identity.exists():
            return JobStatus(stage="gone")
        over = known.job is None or not (known.job.waits or known.job.runs)
        if known.wish == "kill" and over and known.beats and not files.exit.exists():
            # Ray has lost its job, and its trainer is yet to meet the fence.
            return JobStatus(stage="running", begun=True)
        return super().poll(job)

    def _unlisted(self, known: engine.Known[RayJob], *, begun: bool) -> JobStatus:
        """A head that was started anew has forgotten its jobs; their trainers may train on, and say so themselves."""
        assert isinstance(known, RayKnown)
        if begun and known.beats:
            return JobStatus(stage="running", begun=True)
        why = f"Ray's head was started anew and has forgotten job {known.number}"
        return JobStatus(stage="gone", begun=begun, why=why, interrupted=why)

    def _of(self, job: Job) -> RayKnown:
        known = self._known.get(job.dir.id)
        if not isinstance(known, RayKnown) or known.attempt != job.attempt:
            known = RayKnown(job.dir, job.attempt, job.nonce, "" if job.handle is None else job.handle.id)
            known.contacted = True
            known.url = "" if job.handle is None else job.handle.address
            with suppress(MissionError, DamagedError, OSError):
                spec = read_attempt_spec(job.dir, job.attempt)
                known.url = known.url or address_in(os.environ, spec.ray.address)
                known.asked, known.grace_s, known.autoscales = asked_of(spec), spec.run.grace_s, spec.ray.autoscales
            self._known[job.dir.id] = known
            self._hurry()
        return known

    def _at(self, url: str) -> Address:
        return Address(url, next(iter(self._tokens.get(url, ())), "") or token_in(os.environ))

    def _ask(self, job: Job, what: Literal["stop", "kill"]) -> Reached:
        known = self._of(job)
        return self._ask_keeper(known, what, unsent=known.order is not None and not known.sending)

    async def _carry_out(self, at: Address, known: RayKnown) -> None:
        """What the keeper was asked by its file, and has not done in time, is asked of Ray; a trainer that Ray does not
        reach any more ends itself at the fence.
        """
        files, found = known.run.attempt(known.attempt), known.job
        if known.told_at is None or files.exit.exists():
            known.wish = None
            return
        waited_s = time.monotonic() - known.told_at
        if found is not None and found.waits and not files.identity.exists():
            with suppress(RayError):
                await self._beside(call, at, "POST", job_path(found.number, "/stop"))
            # A keeper that begins all the same finds its `signal` file and does nothing.
            known.dropped, known.wish, known.job = True, None, None
        elif found is not None and found.runs:
            if waited_s > (KILL_S if known.wish == "kill" else SAVE_GRACES * known.grace_s + engine.LAG_S):
                with suppress(RayError):
                    await self._beside(call, at, "POST", job_path(found.number, "/stop"))
        elif known.wish == "kill" and waited_s > KILL_S and known.beats:
            self._fence_off(known)


def asked_of(spec: Spec) -> Asked:
    """What an attempt of `spec` asks of a node: cores by its threads and env workers, memory by its price, a GPU if it
    is to have one.
    """
    asked: RaySpec = spec.ray
    gpus = asked.gpus if asked.gpus is not None else float(spec.run.device.startswith("cuda"))
    amounts = {
        "CPU": asked.cpus if asked.cpus is not None else float(busy_cores(spec, MOST_CORES)),
        "GPU": gpus,
        "memory": float(engine.memory_asked([spec]) if asked.memory is None else asked.memory),
        **asked.resources,
    }
    return Asked({name: amount for name, amount in amounts.items() if amount}, asked.labels)


def job_number(known: RayKnown) -> str:
    """What an attempt is called in Ray: the same for each submission of it, so that none is carried out twice."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", known.run.id)[:_NAME_CHARACTERS]
    again = f"-{known.tries + 1}" if known.tries else ""
    # Ray may be shared, and names of runs are not: the nonce says nothing to who reads its digest.
    digest = sha256(known.nonce.encode()).hexdigest()[:8]
    return f"{name}.{known.attempt}-{digest}{again}"


def entrypoint(run: RunDir, order: LaunchOrder, digest: str) -> str:
    """What the node does: where it sees the run directory it becomes the attempt's keeper."""
    folder = run.attempt(order.attempt)
    keeper = [sys.executable, "-P", "-m", "mission_tui.keeper", *keeper_words(run, order, digest), PASSED]
    return (
        f"{engine.unless_seen(folder.launch, run.path.parent)}"
        f"exec {shlex.join(keeper)} >>{shlex.quote(str(folder.path / RAY_LOG))} 2>&1 <<END\n${engine.SECRETS}\nEND\n"
    )


def _has_news(known: RayKnown, found: Mapping[str, RayJob]) -> bool:
    """Whether its job went to a node since, whose name is to be found out."""
    job = found.get(known.number or job_number(known))
    return job is not None and bool(job.node_id) and (known.job is None or known.job.node_id != job.node_id)
