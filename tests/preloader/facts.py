"""A trainer that only says what the process is that it was started in; run as a module, on both roads."""

from __future__ import annotations

import json
import locale
import os
import random
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np


def facts() -> dict[str, object]:
    """What a program can find out about how it was started, and four random numbers."""
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
    environ = Path("/proc/self/environ").read_bytes().split(b"\0")
    return {
        "argv": sys.argv,
        "orig_argv": sys.orig_argv[2:],
        "main": sys.modules["__main__"].__spec__.name,  # type: ignore[union-attr]
        "environ": dict(os.environ),
        "kernel's environ": sorted(os.fsdecode(item) for item in environ if item),
        "cwd": str(Path.cwd()),
        "path": sys.path,
        "descriptors": {
            link.name: str(link.readlink()) for link in sorted(Path("/proc/self/fd").iterdir()) if link.exists()
        },
        "own group": os.getpgid(0) == os.getpid(),
        "parent's session": os.getsid(0) == os.getppid(),
        "ignored": status["SigIgn"],
        "blocked": status["SigBlk"],
        "caught": status["SigCgt"],
        "umask": status["Umask"],
        "threads": status["Threads"],
        "limits": {
            name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name[:7] == "RLIMIT_"
        },
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "cores": sorted(os.sched_getaffinity(0)),
        "interrupt": repr(signal.getsignal(signal.SIGINT)),
        "encodings": [(stream.encoding, stream.errors) for stream in (sys.stdin, sys.stdout, sys.stderr)],
        "locale": locale.getlocale(),
        "zone": time.tzname,
        "temporary": tempfile.gettempdir(),
        "random": [random.random(), float(np.random.random()), os.urandom(4).hex()],
    }


if __name__ == "__main__":
    print("printed at once")
    said = json.dumps(facts())
    Path("facts.part").write_text(said)
    Path("facts.part").rename(f"facts-{os.environ['MISSION_TUI_ATTEMPT']}")
    sys.exit(int(os.environ.get("LEAVE_WITH", "0")))
