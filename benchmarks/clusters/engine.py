"""A Slurm and a Ray that place jobs on nodes which train nothing: `python -m benchmarks.clusters.engine FOLDER`.

What asks them is real: the supervisor calls `sbatch`, `squeue` and `scancel` from `FOLDER/bin`, and Ray's REST at the
address in `FOLDER/ray`. They answer late, lose answers to what they carried out, answer wrongly, and are started anew;
Ray has then forgotten its jobs, as real heads have. `engine WORD` on the socket counts, ends nodes and restarts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.clusters.nodes import Attempt, Nodes
from mission_tui.records.runs.attempt import read_handle
from mission_tui.records.runs.layout import RunDir

SOCKET, ADDRESS, BIN = "engine.sock", "ray", "bin"
COMMANDS = ("sbatch", "squeue", "scancel", "scontrol")
CPUS_A_NODE = 64
CLIENT = """import socket, sys, json
link = socket.socket(socket.AF_UNIX)
link.connect({path!r})
link.sendall(json.dumps(sys.argv[1:]).encode() + b"\\n")
link.shutdown(socket.SHUT_WR)
said = b""
while part := link.recv(1 << 20):
    said += part
code, _, rest = said.partition(b"\\n")
out, err = (rest, b"") if code == b"0" else (b"", rest)
sys.stdout.buffer.write(out)
sys.stderr.buffer.write(err)
sys.exit(int(code))
"""
UNREACHABLE = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"


@dataclass(slots=True)
class Faults:
    """How engines misbehave: seconds until an answer, and shares of answers that are lost, or wrong."""

    latency_s: float = 0.05
    lost: float = 0.0
    wrong: float = 0.0


@dataclass(eq=False, slots=True)
class JobOnNode:
    """A job as its engine has it; `state` in Slurm's words."""

    number: str
    run: RunDir
    attempt: int
    state: str = "PENDING"
    node: str = ""
    code: int | None = None
    work: Attempt | None = None
    submitted_t: float = field(default_factory=time.time)

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.state not in ("PENDING", "RUNNING")


class Engine:
    """Jobs of both engines. `counts`: how often each was asked what."""

    def __init__(self, nodes: Nodes, faults: Faults, luck: random.Random, most: int) -> None:
        self.nodes, self.faults, self.luck = nodes, faults, luck
        self.slurm: dict[str, JobOnNode] = {}
        self.ray: dict[str, JobOnNode] = {}
        self.counts: Counter[str] = Counter()
        self.down_until = 0.0
        self.hosts = max(2, most // CPUS_A_NODE + 2)
        self._emptied = False
        self._place = 0

    def down(self) -> bool:
        """Whether it is being started anew."""
        return time.monotonic() < self.down_until

    def place(self, job: JobOnNode) -> None:
        """Have it begin on the next node, after a moment in the queue."""
        self._place += 1
        job.node = f"n{1 + self._place % self.hosts}"

        def begin() -> None:
            if job.state != "PENDING":
                return
            job.state = "RUNNING"
            job.work = Attempt(self.nodes, job.run, job.attempt, job.node, lambda code: self._ended(job, code))
            job.work.begin()

        self.nodes.after(self.luck.uniform(0.2, 2.0), begin)

    def _ended(self, job: JobOnNode, code: int) -> None:
        job.code = code
        job.state = "COMPLETED" if code == 0 else "FAILED"

    def lose_node(self, name: str) -> int:
        """All that is on it is gone; how many jobs."""
        lost = [job for job in (*self.slurm.values(), *self.ray.values()) if job.node == name and not job.over]
        for job in lost:
            job.state = "NODE_FAIL"
            if job.work is not None:
                job.work.lose()
        return len(lost)

    def restart(self, seconds: float) -> None:
        """Answer nobody for so long; Ray has then forgotten its jobs, and their trainers train on."""
        self.down_until = time.monotonic() + seconds
        self.ray.clear()

    def carry(self, root: Path) -> int:
        """Have the jobs that handles in `root` name, as if they had been submitted; how many."""
        found = 0
        for path in root.glob("*/attempts/*/handle.json"):
            handle = read_handle(path)
            if handle is not None and not (path.parent / "exit.json").exists():
                run, attempt = RunDir(path.parents[2]), int(path.parent.name)
                jobs = self.slurm if handle.launcher == "slurm" else self.ray
                job = jobs[handle.id] = JobOnNode(handle.id, run, attempt)
                self.place(job)
                found += 1
        return found

    def wrong(self) -> bool:
        """Whether this answer is to be wrong. Never two lists in a row: nobody can tell that from the truth."""
        self._emptied = not self._emptied and self.luck.random() < self.faults.wrong
        return self._emptied

    def lost(self) -> bool:
        """Whether this answer is to be lost."""
        return self.luck.random() < self.faults.lost

    # Slurm's commands.

    def command(self, words: Sequence[str]) -> tuple[int, str]:
        """Exit code and answer of one."""
        self.counts[words[0]] += 1
        if words[0] == "engine":
            return 0, self._told(words[1:])
        if self.down():
            return 1, UNREACHABLE
        code, said = getattr(self, f"_{words[0]}")(list(words[1:]))
        if words[0] != "squeue" and self.lost():
            self.counts["lost"] += 1
            return 1, "error: Socket timed out on send/recv operation"
        return code, said

    def _told(self, words: Sequence[str]) -> str:
        match words:
            case ["counts"]:
                return json.dumps({**self.counts, "rows": self.nodes.written, "orders": self.nodes.heard})
            case ["faults", latency_s, lost, wrong]:
                self.faults = Faults(float(latency_s), float(lost), float(wrong))
            case ["restart", seconds]:
                self.restart(float(seconds))
            case ["lose", name]:
                return str(self.lose_node(name))
            case ["carry", root]:
                return str(self.carry(Path(root)))
            case ["row", seconds]:
                self.nodes.row_s = float(seconds)
            case _:
                return "what?"
        return "done"

    def _sbatch(self, words: list[str]) -> tuple[int, str]:
        said = dict(word.removeprefix("--").partition("=")[::2] for word in words if word.startswith("--"))
        run, attempt = RunDir(Path(said["chdir"])), int(said["job-name"].rpartition(".")[2])
        number = str(1 + len(self.slurm))
        job = self.slurm[number] = JobOnNode(number, run, attempt)
        self.place(job)
        return 0, f"{number}\n"

    def _squeue(self, _words: list[str]) -> tuple[int, str]:
        if self.lost():
            self.counts["lost"] += 1
            return 1, UNREACHABLE
        if self.wrong():
            self.counts["wrong"] += 1
            broken = '{"jobs": [{"job_id": 1, "na'
            empty = '{"meta": {}, "errors": [], "jobs": []}'
            failed = '{"meta": {}, "errors": [{"description": "Failed while looking for jobs"}], "jobs": []}'
            return 0, self.luck.choice((broken, empty, failed))
        # A controller forgets what ended a while ago.
        return 0, json.dumps({"meta": {}, "errors": [], "jobs": [_entry(job) for job in self.slurm.values()]})

    def _scontrol(self, words: list[str]) -> tuple[int, str]:
        if words[-1] == "job":
            return 0, "".join(
                f"JobId={number} JobName={job.run.id}.{job.attempt}\n" for number, job in self.slurm.items()
            )
        return 0, "SelectType = select/cons_tres\n"

    def _scancel(self, words: list[str]) -> tuple[int, str]:
        job = self.slurm.get(words[-1])
        if job is None or job.over:
            return 1, f"scancel: error: Kill job error on job id {words[-1]}: Invalid job id specified"
        signal = next((word.partition("=")[2] for word in words if word.startswith("--signal=")), "")
        if job.state == "PENDING" or not signal:
            job.state = "CANCELLED"
            if job.work is not None:
                job.work.lose()
        elif job.work is not None:
            job.work.hear("QUIT" if signal == "QUIT" else "TERM")
        return 0, ""

    # Ray's REST.

    def rest(self, method: str, path: str, body: bytes) -> tuple[int, object] | None:
        """Status and document of an answer; None for none."""
        self.counts[f"{method} {path.partition('?')[0] if '/stop' not in path else 'stop'}"] += 1
        if path == "/api/jobs/" and method == "POST":
            said = json.loads(body)
            number = said["submission_id"]
            if number in self.ray:
                return 500, f"ValueError: Job with submission_id {number} already exists"
            # The words of the keeper end with run directory and attempt.
            words = said["entrypoint"].partition("mission_tui.keeper ")[2].split()
            job = self.ray[number] = JobOnNode(number, RunDir(Path(words[0].strip("'"))), int(words[1]))
            self.place(job)
            answer: object = {"submission_id": number}
        elif path == "/api/jobs/":
            if self.wrong():
                self.counts["wrong"] += 1
                return 200, self.luck.choice(([], {"result": "what?"}))
            answer = [_listed(job) for job in self.ray.values()]
        elif path.endswith("/stop"):
            named = self.ray.get(path.split("/")[-2])
            if named is not None and not named.over:
                named.state = "CANCELLED"
                if named.work is not None:
                    named.work.lose()
            answer = {"stopped": True}
        elif path.startswith("/api/v0/nodes"):
            answer = {"data": {"result": {"result": [_node(at) for at in range(1, self.hosts + 1)]}}}
        elif path.startswith("/api/cluster_status"):
            answer = {"data": {"clusterStatus": {"loadMetricsReport": {"usageByNode": self._usage()}}}}
        else:
            answer = {"ray_version": "2.60.0", "version": "4", "session_name": "simulated"}
        if self.lost():
            self.counts["lost"] += 1
            return None
        return 200, answer

    def _usage(self) -> dict[str, dict[str, list[float]]]:
        live = Counter(job.node for job in self.ray.values() if not job.over)
        return {f"{at:056x}": {"CPU": [float(live[f"n{at}"]), CPUS_A_NODE]} for at in range(1, self.hosts + 1)}


_OTHER_NAMES = """
account admin_comment array_max_tasks array_task_string association_id batch_features batch_flag burst_buffer
burst_buffer_state cluster cluster_features command comment container cores_per_socket cpus_per_task
cpus_per_tres deadline delay_boot dependency derived_exit_code eligible_time end_time excluded_nodes features
federation_origin federation_siblings_active federation_siblings_viable gres_detail group_id job_resources
last_sched_evaluation licenses max_cpus max_nodes mcs_label memory_per_tres minimum_cpus_per_node
minimum_switches minimum_tmp_disk_per_node network nice pending_tasks memory_per_node memory_per_cpu power
preempt_time pre_sus_time priority profile qos reboot required_nodes requeue resize_time restart_cnt resv_name
shared show_flags sockets_per_board sockets_per_node standard_error standard_input standard_output
system_comment suspend_time time_limit time_minimum threads_per_core tres_bind tres_freq tres_per_job
tres_per_node tres_per_socket tres_per_task tres_req_str tres_alloc_str user_id user_name wckey
"""
_OTHER_FIELDS = dict.fromkeys(_OTHER_NAMES.split(), "")
"""What an entry of `squeue --json` of Slurm 22.05 has besides; it is what most of the bytes are."""


def _entry(job: JobOnNode) -> dict[str, object]:
    return _OTHER_FIELDS | {
        "job_id": int(job.number),
        "name": f"{job.run.id}.{job.attempt}",
        "current_working_directory": str(job.run.path),
        "standard_output": f"{job.run.path}/attempts/{job.attempt}/slurm.log",
        "job_state": job.state,
        "state_reason": "None" if job.state != "PENDING" else "Priority",
        "nodes": job.node if job.state != "PENDING" else "",
        "batch_host": job.node,
        "partition": "main",
        "submit_time": int(job.submitted_t),
        "start_time": int(job.submitted_t),
        "exit_code": 0 if job.code is None else job.code << 8,
    }


_RAY_STATES = {"PENDING": "PENDING", "RUNNING": "RUNNING", "COMPLETED": "SUCCEEDED", "CANCELLED": "STOPPED"}


def _listed(job: JobOnNode) -> dict[str, Any]:
    lost = job.state == "NODE_FAIL"
    return {
        "type": "SUBMISSION",
        "job_id": None,
        "submission_id": job.number,
        "status": _RAY_STATES.get(job.state, "FAILED"),
        "message": "its node has died" if lost else "",
        "error_type": "JOB_SUPERVISOR_ACTOR_DIED" if lost else None,
        "start_time": int(job.submitted_t * 1000),
        "end_time": None,
        "metadata": {"mission_tui_run": job.run.id, "mission_tui_attempt": str(job.attempt)},
        "runtime_env": {"env_vars": {"MISSION_TUI_SECRETS": "x" * 32}},
        "entrypoint": f"exec python -P -m mission_tui.keeper {job.run.path} {job.attempt}",
        "driver_agent_http_address": f"http://{job.node}:52365",
        "driver_node_id": None if job.state == "PENDING" else f"{int(job.node[1:]):056x}",
        "driver_exit_code": job.code,
    }


def _node(at: int) -> dict[str, object]:
    name = f"n{at}"
    total = {"CPU": float(CPUS_A_NODE), "memory": 1e12}
    return {"node_id": f"{at:056x}", "node_ip": name, "node_name": name, "state": "ALIVE", "resources_total": total}


async def serve(folder: Path, engine: Engine) -> None:
    """Answer until cancelled; the nodes work in the same loop."""

    async def commanded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        words = json.loads(await reader.readline())
        if words[0] != "engine":
            await asyncio.sleep(engine.luck.uniform(0.0, 2.0) * engine.faults.latency_s)
        code, said = engine.command(words)
        with suppress(ConnectionError):
            writer.write(f"{code}\n{said}".encode())
            await writer.drain()
        writer.close()

    async def asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, path, _ = head.split(" ", 2)
        length = next((int(line[15:]) for line in head.lower().split("\r\n") if line.startswith("content-length:")), 0)
        body = await reader.readexactly(length) if length else b""
        await asyncio.sleep(engine.luck.uniform(0.0, 2.0) * engine.faults.latency_s)
        answered = None if engine.down() else engine.rest(method, path, body)
        if answered is not None:
            document = json.dumps(answered[1]).encode()
            status = "200 OK" if answered[0] == 200 else f"{answered[0]} Error"
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(document)}\r\nConnection: close\r\n\r\n".encode())
            with suppress(ConnectionError):
                writer.write(document)
                await writer.drain()
        writer.close()

    commands = await asyncio.start_unix_server(commanded, folder / SOCKET)
    ray = await asyncio.start_server(asked, "127.0.0.1", 0)
    port = ray.sockets[0].getsockname()[1]
    (folder / ADDRESS).write_text(f"http://127.0.0.1:{port}", encoding="ascii")
    async with commands, ray:
        while True:
            engine.nodes.work()
            await asyncio.sleep(0.02)


def put_commands(folder: Path) -> None:
    """Programs named as Slurm's in `FOLDER/bin`, each of which asks the engine."""
    (folder / BIN).mkdir()
    client = folder / "client.py"
    client.write_text(CLIENT.format(path=str(folder / SOCKET)), encoding="utf-8")
    for name in (*COMMANDS, "engine"):
        program = folder / BIN / name
        program.write_text(
            f'#!/bin/sh\nexec {sys.executable} -I -S {client} {name} "$@" </dev/null\n', encoding="utf-8"
        )
        program.chmod(0o700)


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=1000, help="that have to find room at once")
    parser.add_argument("--row-s", type=float, default=10.0, help="seconds of an update")
    parser.add_argument("--latency-s", type=float, default=0.05)
    parser.add_argument("--lost", type=float, default=0.0)
    parser.add_argument("--wrong", type=float, default=0.0)
    asked = parser.parse_args()
    luck = random.Random(25)
    engine = Engine(Nodes(asked.row_s, luck), Faults(asked.latency_s, asked.lost, asked.wrong), luck, asked.jobs)
    put_commands(asked.folder)
    asyncio.run(serve(asked.folder, engine))


if __name__ == "__main__":
    main()
