"""A Ray cluster of two nodes on this machine, with a token: started in about ten seconds, ended with everything that it
started. Ray lies in an environment of its own, `.venv-ray`, because nothing of ours imports it.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tests.slurm.cluster import free_ports, processes_of
from tests.waiting import until

RAY = Path(os.environ.get("RAY_VENV", Path(__file__).parents[2] / ".venv-ray"), "bin", "ray")

UNENDED = {"PENDING", "RUNNING"}


def lacking() -> str:
    """Why there can be no cluster here; empty when there can."""
    return "" if RAY.is_file() else f"there is no {RAY} (make ray)"


class RayCluster:
    """Nodes `one`, the head, and `two` by their label `place`: four CPUs and a GPU each, though there is none."""

    def __init__(self, folder: Path, token: str, ports: Sequence[int]) -> None:
        self.folder, self.token = folder, token
        gcs, self._dashboard, self._client, *self._agents = ports
        self._gcs = f"127.0.0.1:{gcs}"
        self.url = f"http://127.0.0.1:{self._dashboard}"

    @classmethod
    def begin(cls) -> RayCluster:
        """Start one; paths of sockets are short."""
        cluster = cls(Path(tempfile.mkdtemp(prefix="ray-")), secrets.token_hex(16), free_ports(5))
        try:
            cluster.start()
        except BaseException:
            cluster.end()
            raise
        return cluster

    @property
    def environ(self) -> dict[str, str]:
        """What clients of this cluster have in their environment."""
        return {"RAY_ADDRESS": self.url, "RAY_AUTH_TOKEN": self.token}

    def start(self) -> None:
        """Start both nodes, and wait until Ray knows of both."""
        self.start_head()
        self.start_node()

    def start_head(self) -> None:
        """Start the head; after one that was killed, at another port: it knows of no job, and node `two` not of it."""
        (port,) = free_ports(1)
        self._gcs = f"127.0.0.1:{port}"
        self._ray(
            *("--head", f"--port={port}", f"--dashboard-port={self._dashboard}", f"--temp-dir={self.folder}"),
            *(f"--ray-client-server-port={self._client}", "--disable-usage-stats"),
            place="one",
        )

    def start_node(self) -> None:
        """Start node `two`."""
        self._ray(f"--address={self._gcs}", place="two")
        until(lambda: self.alive() == 2, 30, "both nodes are there")

    def alive(self) -> int:
        """How many nodes live."""
        with suppress(OSError, ValueError):
            listed = self.get("/api/v0/nodes")["data"]["result"]["result"]
            return sum(node["state"] == "ALIVE" for node in listed)
        return 0

    def get(self, path: str, method: str = "GET") -> Any:
        """What Ray answers."""
        known = {"Authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(self.url + path, headers=known, method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def jobs(self) -> dict[str, dict[str, Any]]:
        """Ray's jobs by the number that they were given."""
        return {job["submission_id"]: job for job in self.get("/api/jobs/")}

    def stop_jobs(self) -> None:
        """Stop every job that waits or runs, and wait until none does."""
        for number, job in self.jobs().items():
            if job["status"] in UNENDED:
                self.get(f"/api/jobs/{number}/stop", method="POST")
        until(lambda: not [job for job in self.jobs().values() if job["status"] in UNENDED], 60, "all jobs have ended")

    def place_of(self, job: dict[str, Any]) -> str:
        """The label of the node that a job is on."""
        nodes = self.get("/api/v0/nodes?detail=1")["data"]["result"]["result"]
        return next(str(node["labels"]["place"]) for node in nodes if node["node_id"] == job["driver_node_id"])

    def kill_node(self, place: str) -> None:
        """SIGKILL the raylet of a node, and nothing else there."""
        agent = f"={self._agents[place == 'two']}"
        raylets = [
            process
            for process in self.processes()
            if process.name() == "raylet" and agent in " ".join(process.cmdline())
        ]
        assert len(raylets) == 1
        raylets[0].kill()

    def kill_head(self) -> None:
        """SIGKILL the head, its dashboard and everything beside them; node `two` goes on."""
        other = f"={self._agents[1]}"
        beside = [process for process in self.processes() if process.name() in ("gcs_server", "raylet")]
        beside += [process for process in self.processes() if "dashboard.py" in " ".join(process.cmdline())]
        for process in beside:
            if other not in " ".join(process.cmdline()):
                process.kill()

    def processes(self) -> list[psutil.Process]:
        """Everything whose words or environment name this cluster's folder."""
        return processes_of(self.folder)

    def end(self) -> None:
        """End everything."""
        while processes := self.processes():
            for process in processes:
                with suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(processes, timeout=5)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _ray(self, *words: str, place: str) -> None:
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "MISSION_TUI"))}
        environ |= {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": self.token,
            "RAY_USAGE_STATS_ENABLED": "0",
            # A node that is gone refuses to be asked, and is noticed after four seconds, not nineteen; one that is only
            # slow has its time, as in Ray's own settings.
            "RAY_health_check_period_ms": "1000",
            "RAY_health_check_failure_threshold": "3",
            # Nobody reads metrics of it. The dashboard is its only driver, which needs no worker for each CPU.
            "RAY_enable_metrics_collection": "0",
            "RAY_prestart_worker_first_driver": "0",
            "RAY_TEST_CLUSTER": str(self.folder),
        }
        command = [
            *(str(RAY), "start", *words, f"--dashboard-agent-listen-port={self._agents[place == 'two']}"),
            *("--num-cpus=4", "--num-gpus=1", "--object-store-memory=80000000", f"--labels=place={place}"),
            *("--min-worker-port=0", "--max-worker-port=0", "--include-log-monitor=False"),
        ]
        # Into a file: what it leaves behind may hold a pipe open, and then nobody sees its end.
        with (self.folder / "start.log").open("w+") as said:
            done = subprocess.run(
                command,
                env=environ,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                timeout=120,
                check=False,
            )
            said.seek(0)
            assert done.returncode == 0, said.read()
