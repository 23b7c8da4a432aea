"""What lies under a runs root is opened through `plain_files`, by everybody; each exception has its reason here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "mission_tui"
ROOMS = ("records", "supervisor", "cli", "ipc", "keeper")
READERS = frozenset({"read_text", "read_bytes", "write_text", "write_bytes", "touch"})

KERNEL = "a file of the kernel, or of the system's own configuration"
OWN = "a file of this user's own configuration or state folder, which may be a link"
EXCEPTIONS = {
    "records/atomic.py": "files without a name, and the folder of this process's own descriptors",
    "records/runs_roots.py": "files of the kernel, and of this user's own state folder",
    "records/tuning_files.py": KERNEL,
    "records/runs/seal.py": "the secret in this user's state folder, with its own checks",
    "supervisor/lifecycle/attempts.py": "the journal's own method `open`",
    "supervisor/runs/journal.py": KERNEL,
    "supervisor/host/ledger.py": "a folder that all users share: it has its own rules, and its own checks",
    "supervisor/runs/run_on_disk.py": "one look at each of very many journals: the same checks at half the price",
    "supervisor/ending/leftovers.py": KERNEL,
    "supervisor/gpu/driver.py": KERNEL,
    "supervisor/gpu/nvml.py": KERNEL,
    "supervisor/gpu/probe.py": KERNEL,
    "supervisor/host/identity.py": KERNEL,
    "supervisor/launchers/local.py": KERNEL,
    "supervisor/host/process_files.py": KERNEL,
    "supervisor/host/machine.py": KERNEL,
    "supervisor/watching/usage.py": KERNEL,
    "supervisor/host/children.py": KERNEL,
    "supervisor/launchers/order.py": KERNEL,
    "supervisor/launchers/provenance_probe.py": "code and packages that a run is made of, in its own short process",
    "cli/verbs/doctor.py": KERNEL,
    "cli/screen.py": OWN,
    "cli/terminal_output.py": KERNEL,
    "cli/verbs/bench.py": "a result that a person named",
    "cli/verbs/presets.py": "a preset, which may be a link",
    "cli/verbs/supervisor.py": f"{KERNEL}; its unit: {OWN}",
    "ipc/listener.py": "the listener's own method `open`",
    "ipc/async_client.py": "the link's own method `open`",
    "ipc/server.py": "the listener's own method `open`",
    "ipc/telemetry_server.py": "the listener's own method `open`",
    "ipc/client_environment.py": KERNEL,
    "keeper/child.py": "the lease, with the same flags, what stands on its standard input, and the kernel's files",
    "keeper/ladder.py": KERNEL,
}


def openings(source: str) -> Iterator[int]:
    """The lines on which a file is opened, read or written otherwise than through `plain_files`."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Name(id="open"):
                yield node.lineno
            case ast.Attribute(attr="open" | "mknod" | "creat"):
                yield node.lineno
            case ast.Attribute(attr=name) if name in READERS:
                yield node.lineno


def modules() -> Iterator[tuple[str, str]]:
    for room in ROOMS:
        for path in sorted((PACKAGE / room).rglob("*.py")):
            yield str(path.relative_to(PACKAGE)), path.read_text(encoding="utf-8")


def test_files_of_a_runs_root_are_opened_in_one_way() -> None:
    """Nobody in these rooms opens a file by himself, but those who are named with a reason."""
    found = [f"{name}:{line}" for name, source in modules() if name not in EXCEPTIONS for line in openings(source)]
    assert found == []


@pytest.mark.slow
def test_each_exception_is_still_needed() -> None:
    """A module that opens nothing any more is not excused."""
    assert set(EXCEPTIONS) == {name for name, source in modules() if list(openings(source))}


@pytest.mark.parametrize(
    "source",
    [
        "open(path)",
        "path.open('rb')",
        "os.open(path, 0)",
        "path.read_bytes()",
        "run.events.write_text('')",
        "p.touch()",
    ],
)
def test_other_ways_are_found(source: str) -> None:
    """Every usual way to a file is one that the rule sees."""
    assert list(openings(source)) == [1]


def test_what_goes_through_the_door_is_fine() -> None:
    """The functions of `plain_files` are not complained about."""
    assert list(openings("descriptor, facts = open_plain(path)\nraw = read_plain(path, 10)\nnames_in(folder)")) == []
