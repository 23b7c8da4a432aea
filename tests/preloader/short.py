"""A short process: says what it was given, complains, and ends as its variables say."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    print(json.dumps({"given": sys.stdin.read(), "words": sys.argv[1:], "cwd": str(Path.cwd())}))
    print(
        json.dumps(
            {
                "session": os.getsid(0) == os.getpid(),
                "streams": sorted(link.name for link in Path("/proc/self/fd").iterdir())[:3],
            }
        )
    )
    print("a last word", file=sys.stderr)
    if os.environ["LEAVE_WITH"] == "never":
        time.sleep(600)
    if os.environ["LEAVE_WITH"] == "signal":
        os.kill(os.getpid(), 9)
    sys.exit(int(os.environ["LEAVE_WITH"]))
