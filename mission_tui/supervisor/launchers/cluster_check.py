"""`python -m mission_tui.supervisor.launchers.cluster_check`: try a cluster by a small job before a run goes there.

Its one word is what is to be tried, as JSON: a spec, and the runs root. Each line of standard output is a check as
`doctor` shows it. A small job goes the whole way: it reads a nonce that was written here, writes it back from its node,
and says what is there. Nothing is left behind, whatever comes of it.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal, Protocol

import msgspec
from msgspec import Struct

from mission_tui import __version__
from mission_tui.errors import MissionError
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.text import clean
from mission_tui.plain_files import make_folder, read_plain, remove_tree
from mission_tui.records.atomic import write_atomic
from mission_tui.records.runs.layout import supervisor_dir
from mission_tui.supervisor.launchers import cluster_check_on_node, slurm_commands
from mission_tui.supervisor.launchers import ray_rest as rest
from mission_tui.supervisor.launchers.engine import EX_NOT_SHARED, EngineJob, last_words, not_shared, unless_seen
from mission_tui.supervisor.launchers.ray import asked_of

WAIT_S = 120.0
"""How long a job may wait and run before it is taken back."""

LAG_S = 60.0
"""How long what a node wrote may take to be seen here."""

LOOK_S = 0.5
FORGET_S = 20.0
"""How long Ray is asked to take a job off its list: a head on a busy machine may need more than five."""

Level = Literal["ok", "note", "warn", "bad"]


class ClusterCheck(Struct, frozen=True):
    """A check of `doctor`."""

    name: str
    level: Level
    detail: str
    advice: str = ""


class CheckRequest(Struct, frozen=True):
    """What is to be tried: runs of `spec` from the runs root `root`."""

    spec: Spec
    root: str


class Answer(Struct, frozen=True):
    """What the job wrote on its node."""

    nonce: str
    host: str
    t: float
    python: str
    version: str
    packages: dict[str, str]
    visible: str | None
    gpus: int


class Engine(Protocol):
    """How an engine is asked, one call after the other. All raise `MissionError`."""

    title: str

    def reach(self) -> Iterator[ClusterCheck]:
        """Checks of whether the cluster answers, and of what it has."""

    def submit(self, name: str, script: str) -> str:
        """The number of a job that carries out `script`."""

    def job(self, number: str) -> EngineJob | None:
        """The job as it stands; None where it is not listed yet."""

    def forget(self, number: str) -> None:
        """End the job and leave nothing of it."""


class SlurmEngine:
    """By Slurm's four commands."""

    title = "Slurm"

    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    def reach(self) -> Iterator[ClusterCheck]:
        missing = [name for name in ("sbatch", "squeue", "scancel", "scontrol") if shutil.which(name) is None]
        if missing:
            yield ClusterCheck(
                self.title, "bad", f"no {', '.join(missing)} on the PATH", "call doctor where Slurm is installed"
            )
            raise MissionError("")
        version = slurm_commands.call(("sbatch", "--version")).strip()
        jobs = slurm_commands.read_jobs(slurm_commands.call(("squeue", "--json")))
        yield ClusterCheck(self.title, "ok", f"{clean(version, 60)}, {len(jobs)} jobs in its list")
        config = slurm_commands.call(("scontrol", "show", "config"))
        wait = re.search(r"^KillWait\s*=\s*(\d+)", config, re.MULTILINE)
        limit = f"; scancel and a time limit have {wait[1]} s (KillWait)" if wait else ""
        yield ClusterCheck("stop", "ok", f"a run has {self._spec.run.grace_s:g} s to save (run.grace_s){limit}")
        if wait and int(wait[1]) < self._spec.run.grace_s <= self._spec.slurm.warn_s:
            yield ClusterCheck("time limit", "ok", f"a run saves {self._spec.slurm.warn_s} s before it (slurm.warn_s)")

    def submit(self, name: str, script: str) -> str:
        words = ["sbatch", "--parsable", "--no-requeue", f"--job-name={name}", "--chdir=/", "--output=/dev/null"]
        cluster = slurm_commands.read_cluster(slurm_commands.call(("scontrol", "show", "config")))
        priced = slurm_commands.priced_words([self._spec], cluster, os.environ)
        words += ["--nodes=1", "--ntasks=1", *priced, *slurm_commands.asked_words(self._spec)]
        return slurm_commands.submitted_number(
            slurm_commands.call(words, f"#!/bin/bash\n{script}", slurm_commands.kept_environ(os.environ))
        )

    def job(self, number: str) -> EngineJob | None:
        # With --json, squeue of 22.05 lists every job, whatever it was asked for.
        jobs = slurm_commands.read_jobs(slurm_commands.call(("squeue", "--json", "--states=all")))
        return next((job for job in jobs.values() if job.number == number), None)

    def forget(self, number: str) -> None:
        slurm_commands.call(("scancel", number))


class RayEngine:
    """By the dashboard of Ray's head."""

    title = "Ray"

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._at = rest.Address(rest.address_in(os.environ, spec.ray.address), rest.token_in(os.environ))
        self._asked = asked_of(spec)

    def reach(self) -> Iterator[ClusterCheck]:
        said = rest.read_version(rest.call(self._at, "GET", "/api/version"))
        nodes = self._nodes()
        alive = [node for node in nodes if node.alive]
        yield ClusterCheck(self.title, "ok", f"{clean(said.ray_version, 20)} at {self._at.url}, {len(alive)} nodes")
        try:
            rest.call(rest.Address(self._at.url), "GET", "/api/version")
        except rest.RayError:
            yield ClusterCheck("token", "ok", "wanted, and yours is accepted")
        else:
            advice = "start it with RAY_AUTH_MODE=token: whoever reaches that address can run programs there"
            yield ClusterCheck("token", "warn", "Ray wants none", advice)
        able = [node for node in alive if node.has(self._asked)]
        if not able:
            largest = ", ".join(_room(node) for node in alive[:3])
            yield ClusterCheck(
                "room", "bad", f"no node has {self._asked}: {largest}", "ask for less (--set ray.gpus=0.5)"
            )
            raise MissionError("")
        free = [node for node in able if node.has_room(self._asked)]
        yield ClusterCheck("room", "ok", f"{self._asked}: {len(able)} nodes have it, {len(free)} have it free")
        detail = f"a run has {self._spec.run.grace_s:g} s to save (run.grace_s); `ray job stop` gives it 3 s"
        yield ClusterCheck("stop", "ok", detail, "stop runs here, not through Ray")

    def _nodes(self) -> list[rest.Node]:
        listed = rest.call(self._at, "GET", "/api/v0/nodes?detail=1&limit=10000")
        return rest.read_nodes(listed, rest.call(self._at, "GET", "/api/cluster_status"))

    def submit(self, name: str, script: str) -> str:
        rest.call(self._at, "POST", "/api/jobs/", rest.submission(name, script, self._asked, {}, {}))
        return name

    def job(self, number: str) -> EngineJob | None:
        job = rest.read_jobs(rest.call(self._at, "GET", "/api/jobs/")).get(number)
        if job is None or not job.node_id:
            return job
        name = next((node.name for node in self._nodes() if node.id == job.node_id), "")
        return msgspec.structs.replace(job, node=name)

    def forget(self, number: str) -> None:
        with suppress(rest.RayError):
            rest.call(self._at, "POST", rest.job_path(number, "/stop"))
        until = time.monotonic() + FORGET_S
        while not self._is_off_the_list(number, last=time.monotonic() >= until):
            time.sleep(LOOK_S)

    def _is_off_the_list(self, number: str, *, last: bool) -> bool:
        """One that has not ended yet is kept, and a busy head takes its time to end it. Raises `RayError` at `last`."""
        try:
            rest.call(self._at, "DELETE", rest.job_path(number))
        except rest.RayError as error:
            if last or error.unreached:
                raise
            return False
        return True


ENGINES: Mapping[str, Callable[[Spec], Engine]] = {"slurm": SlurmEngine, "ray": RayEngine}


def _room(node: rest.Node) -> str:
    return f"{node.name} has {node.total.get('CPU', 0):g} CPU, {node.total.get('GPU', 0):g} GPU"


def tried(wish: CheckRequest) -> Iterator[ClusterCheck]:
    """Each check as soon as it is made; the first that is bad is the last."""
    title = wish.spec.run.launcher
    try:
        engine: Engine = ENGINES[title](wish.spec)
        title = engine.title
        yield from engine.reach()
    except MissionError as error:
        if str(error):
            yield ClusterCheck(title, "bad", str(error))
        return
    root = Path(wish.root)
    name = f"mission-tui-doctor-{secrets.token_hex(4)}"
    folder = supervisor_dir(root) / name
    try:
        root.mkdir(parents=True, exist_ok=True)
        make_folder(supervisor_dir(root))
        make_folder(folder)
        yield from _there_and_back(engine, root, folder, name)
    except (MissionError, OSError) as error:
        yield ClusterCheck("job", "bad", str(error))
    finally:
        with suppress(OSError):
            remove_tree(folder)


def _there_and_back(engine: Engine, root: Path, folder: Path, name: str) -> Iterator[ClusterCheck]:
    nonce = secrets.token_hex(16)
    write_atomic(folder / "nonce", nonce.encode())
    words = [sys.executable, "-P", "-m", cluster_check_on_node.__name__, str(folder)]
    log = shlex.quote(str(folder / "job.log"))
    script = f"{unless_seen(folder / 'nonce', root)}exec {shlex.join(words)} >{log} 2>&1\n"
    number, begun_at = engine.submit(name, script), time.monotonic()
    try:
        job = engine.job(number)
        while (job is None or job.waits or job.runs) and time.monotonic() - begun_at < WAIT_S:
            time.sleep(LOOK_S)
            job = engine.job(number)
        if job is None or job.waits or job.runs:
            why = "is not in its list" if job is None else job.why_it_waits if job.waits else "does not end"
            yield ClusterCheck("job", "warn", f"the job was taken back after {WAIT_S:g} s: it {why}", "try again later")
            return
        seen_at = time.monotonic()
        while (
            not (folder / "answer.json").exists() and job.exit_code in (0, None) and time.monotonic() - seen_at < LAG_S
        ):
            time.sleep(LOOK_S)
        yield from _judged(engine, root, folder, job, nonce, time.monotonic() - seen_at)
    finally:
        with suppress(MissionError):
            engine.forget(number)


def _judged(
    engine: Engine, root: Path, folder: Path, job: EngineJob, nonce: str, lag_s: float
) -> Iterator[ClusterCheck]:
    """What the job's end and answer say of runs root, interpreter, packages and GPU."""
    if job.exit_code == EX_NOT_SHARED:
        yield ClusterCheck("runs root", "bad", not_shared(root, job.node))
        return
    try:
        answer = msgspec.json.decode(read_plain(folder / "answer.json", 1 << 16), type=Answer)
    except (OSError, ValueError):
        if job.exit_code in (0, None) and not job.ended:
            detail = f"what {job.node or 'the node'} wrote in {root} is not seen here after {LAG_S:g} s"
            yield ClusterCheck("runs root", "bad", detail, "put it on storage that all nodes share (NFS, Lustre)")
        else:
            said = last_words(folder / "job.log") or job.ended or f"the job ended with exit code {job.exit_code}"
            advice = f"install mission-tui where nodes see it too: it was called as {sys.executable}"
            yield ClusterCheck("interpreter", "bad", f"on {job.node or 'the node'}: {said}", advice)
        return
    if answer.nonce != nonce:
        yield ClusterCheck("runs root", "bad", f"{job.node or 'the node'} read another nonce than was written here")
        return
    where = clean(answer.host, 60)
    differs = answer.t - time.time()
    clocks = f"; its clock differs by {differs:.0f} s" if abs(differs) > WAIT_S else ""
    yield ClusterCheck(
        "runs root", "ok", f"{root} is seen by {where}, and what it writes is seen here after {lag_s:.1f} s{clocks}"
    )
    same = answer.version == __version__
    detail = f"Python {clean(answer.python, 20)} and mission-tui {clean(answer.version, 30)} on {where}"
    advice = "" if same else f"here it is {__version__}: use one environment for both"
    yield ClusterCheck("interpreter", "ok" if same else "warn", detail, advice)
    here = cluster_check_on_node.packages()
    others = [
        f"{name} {clean(answer.packages.get(name, 'missing'), 30)}, here {version}"
        for name, version in here.items()
        if answer.packages.get(name) != version
    ]
    yield ClusterCheck("packages", "warn" if others else "ok", "; ".join(others) or "as here: " + _listed(here))
    shown = "unset" if answer.visible is None else f"'{clean(answer.visible, 60)}'"
    given = bool(answer.visible) and answer.visible not in ("NoDevFiles", "-1")
    detail = f"the job was shown CUDA_VISIBLE_DEVICES {shown}; the driver there lists {answer.gpus}"
    lacks = given and not answer.gpus
    yield ClusterCheck(
        "GPU", "warn" if lacks else "ok", detail, "the node gives a GPU that its driver does not have" if lacks else ""
    )


def _listed(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def main() -> None:
    """Read what is to be tried, and say what was found."""
    # Whoever ends this ends the job with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    wish = msgspec.json.decode(sys.argv[1].encode(), type=CheckRequest)
    for found in tried(wish):
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
