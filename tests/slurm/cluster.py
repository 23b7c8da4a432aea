"""A Slurm cluster of two nodes on this machine: started in about two seconds, ended with everything that it started."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tests.waiting import until

COMMANDS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol")


def lacking() -> str:
    """Why there can be no cluster here; empty when there can."""
    missing = [name for name in COMMANDS if find(name) is None]
    if missing:
        return f"{', '.join(missing)} not installed (slurm-wlm, munge)"
    return "" if os.geteuid() == 0 else "a private Slurm needs root"


def find(name: str) -> str | None:
    """The program `name`; daemons are not on everybody's PATH."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


class Cluster:
    """Nodes n1 and n2 with two CPUs and a GPU of four shards each, though there is none. Jobs of `main` make room
    for those of `urgent`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.conf = folder / "slurm.conf"
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        ports = free_ports(3)
        host = socket.gethostname()
        for name in ("state", "spool.n1", "spool.n2"):
            (folder / name).mkdir()
        key = folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        self.conf.write_text(
            f"""ClusterName=mt
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.sock
SlurmctldPort={ports[0]}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdSpoolDir={folder}/spool.%n
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/ctld.log
SlurmdLogFile={folder}/slurmd.%n.log
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,batch_sched_delay=0
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
KillWait=25
SlurmdTimeout=10
MessageTimeout=5
MinJobAge=600
GresTypes=gpu,shard
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 Gres=gpu:1,shard:4
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 Gres=gpu:1,shard:4 Feature=fast
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=20
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
""",
            encoding="ascii",
        )

        (folder / "gres.conf").write_text(
            "NodeName=n[1-2] Name=gpu File=/dev/null\nNodeName=n[1-2] Name=shard Count=4\n", encoding="ascii"
        )

    @property
    def environ(self) -> dict[str, str]:
        """What clients of this cluster have in their environment."""
        return {"SLURM_CONF": str(self.conf)}

    def start(self) -> None:
        """Start everything and wait until both nodes are idle."""
        self.start_munge()
        self.start_controller()
        for node in ("n1", "n2"):
            self.start_node(node)
        self.wait_idle()

    def start_munge(self) -> None:
        """Start munged, which gives whoever asks Slurm the credential that it wants."""
        folder = self.folder
        munged = ["--foreground", "--force", f"--socket={folder}/munge.sock", f"--key-file={folder}/munge.key"]
        munged += [
            f"--pid-file={folder}/munged.pid",
            f"--seed-file={folder}/munge.seed",
            f"--log-file={folder}/munge.log",
        ]
        self._spawn("munged", *munged)
        until((folder / "munge.sock").exists, 10, "munged")

    def wait_idle(self) -> None:
        """Wait until both nodes take jobs; one that was down is asked to come back until it does."""

        def idle() -> bool:
            if "down" in (said := self.ask("sinfo", "-h", "-o", "%T %D")):
                self.ask("scontrol", "update", "nodename=n[1-2]", "state=resume")
            return said.split() == ["idle", "2"]

        until(idle, 60, "both nodes are idle")

    def give_up(self, node: str) -> None:
        """Tell the controller of a node that is gone, which it finds out by itself after `SlurmdTimeout`."""
        self.ask("scontrol", "update", f"nodename={node}", "state=down", "reason=gone")

    def kill_steps(self, number: str) -> None:
        """SIGKILL what Slurm has on the node of the job with that number, beside the job's own processes."""
        for process in psutil.process_iter(["name", "cmdline"]):
            if process.info["name"] == "slurmstepd" and f"[{number}." in " ".join(process.info["cmdline"]):
                process.kill()

    def start_controller(self) -> None:
        """Start slurmctld, which goes on with the state that it had."""
        self._spawn("slurmctld", "-D", "-f", str(self.conf))

    def start_node(self, node: str) -> None:
        """Start the slurmd of `node`."""
        self._spawn(node, "-D", "-f", str(self.conf), "-N", node, program="slurmd")

    def stop(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """End one daemon; what it started goes on."""
        daemon = self.daemons.pop(name)
        daemon.send_signal(number)
        daemon.wait(15)

    def ask(self, *words: str) -> str:
        """What a command of Slurm prints; empty when it fails."""
        done = subprocess.run(
            words, env=os.environ | self.environ, capture_output=True, text=True, check=False, timeout=20
        )
        return done.stdout if done.returncode == 0 else ""

    def processes(self) -> list[psutil.Process]:
        """Everything whose words or environment name this cluster's folder."""
        return processes_of(self.folder)

    def end(self) -> None:
        """End everything."""
        for _ in range(3):
            for process in self.processes():
                with suppress(psutil.Error):
                    process.kill()
        for daemon in self.daemons.values():
            daemon.wait(10)

    def _spawn(self, name: str, *words: str, program: str | None = None) -> None:
        path = find(program or name)
        assert path is not None
        with (self.folder / f"{name}.out").open("ab") as out:
            self.daemons[name] = subprocess.Popen(
                [path, *words],
                env=os.environ | self.environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )


def processes_of(folder: Path) -> list[psutil.Process]:
    """Everything whose words or environment name `folder`, but this process."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, psutil.Error):
            words = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            if os.fsencode(folder) in words and int(entry.name) != os.getpid():
                found.append(psutil.Process(int(entry.name)))
    return found


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@contextmanager
def running_cluster() -> Iterator[Cluster]:
    """A cluster that lives until the block ends. Its folder has a short name: paths of sockets are short."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    # munged refuses a socket in a folder that others may write in, or cannot enter.
    folder.chmod(0o755)
    cluster = Cluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()
        shutil.rmtree(folder, ignore_errors=True)
