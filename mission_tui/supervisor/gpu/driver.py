"""The short process that asks NVML once which driver is here and which GPUs it lists: see `mission_tui.gpu_driver`.

It prints one JSON object, whatever the driver does short of hanging.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pynvml

from mission_tui.fleet.text import clean
from mission_tui.supervisor.gpu.nvml import ABSENT, connect, count_gpus, reason_of, text_of


def main() -> int:
    """Ask and say it; the descriptor of stdout is kept from what the driver prints."""
    out = os.dup(1)
    nothing = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(nothing, 1)
    os.write(out, json.dumps(_facts()).encode())
    return 0


def _facts() -> dict[str, object]:
    facts: dict[str, object] = {"version": "", "gpus": [], "why": "", "absent": False, "refused": False}
    try:
        connect()
        facts["version"] = clean(text_of(_asked("nvmlSystemGetDriverVersion")), 40)
        facts["gpus"] = [_name(index) for index in range(count_gpus())]
    except BaseException as error:  # noqa: BLE001 - the edge of the process: whatever it is becomes the answer
        facts |= {"why": clean(reason_of(error), 200), "absent": isinstance(error, ABSENT)}
        facts["refused"] = isinstance(error, pynvml.NVMLError_NoPermission)
    return facts


def _name(index: int) -> str:
    """What the GPU is called; one that does not answer is one all the same."""
    try:
        return clean(text_of(_asked("nvmlDeviceGetName", pynvml.nvmlDeviceGetHandleByIndex(index))), 80)
    except Exception:  # noqa: BLE001 - a GPU that was lost, or a name that is none
        return "GPU"


def _asked(name: str, *arguments: Any) -> Any:
    """As `pynvml` has it, but for the decoding of texts, which need not be UTF-8."""
    function = getattr(pynvml, name)
    return getattr(function, "__wrapped__", function)(*arguments)


if __name__ == "__main__":
    sys.exit(main())
