"""`mission-tui doctor`: what this machine and this environment mean for trainings, and what would help.

`paths` says where this call looks for runs, sockets, logs, presets and limits, which other runs roots are live, and
where the two files are that other people's environments take from here. Nothing is made by asking.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

import click

from mission_tui.cli.options import json_option, set_option
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import Colour, Styled, write
from mission_tui.errors import EX_FAILED, UsageError
from mission_tui.paths import health_files, socket_dir

COLOURS: dict[str, Colour] = {"ok": "green", "note": "cyan", "warn": "yellow", "bad": "red"}
TAKEN = ("hook", "report")
"""Named by their paths, or copied, where mission-tui is not installed."""


@click.command("doctor")
@click.option("--launcher", metavar="NAME", help="Try the road to slurm or ray instead, by a small job.")
@set_option
@json_option
@pass_session
def doctor_command(session: Session, launcher: str | None, assignments: tuple[str, ...], as_json: bool) -> int:
    """Check this machine and this environment, or try a cluster.

    Exit code 1 when trainings cannot run here, or there.
    """
    from msgspec.structs import asdict

    from mission_tui import __version__
    from mission_tui.cli.doctor_checks import Check, all_checks, cluster_checks
    from mission_tui.cli.tables.documents import write_document

    if assignments and launcher is None:
        raise UsageError("--set says what is asked of a cluster: add --launcher slurm, or ray")
    checks = iter(all_checks(session)) if launcher is None else cluster_checks(session, launcher, assignments)
    found: list[Check] = []
    for check in checks:
        found.append(check)
        if not as_json:
            write(Styled(check.level.ljust(4), COLOURS[check.level]), f"  {check.name:14} {check.detail}")
            if check.advice:
                write(f"      {'':14} -> {check.advice}")
    healthy = all(check.level != "bad" for check in found)
    if as_json:
        write_document({"version": __version__, "healthy": healthy, "checks": [asdict(check) for check in found]})
    return 0 if healthy else EX_FAILED


@click.command("paths")
@json_option
@pass_session
def paths_command(session: Session, as_json: bool) -> None:
    """Show the folders in use."""
    from mission_tui.cli.tables.documents import write_document
    from mission_tui.cli.terminal_output import Table
    from mission_tui.ipc.start import live_roots
    from mission_tui.records.runs.layout import supervisor_dir

    elsewhere = live_roots(session.root)
    sockets = socket_dir(session.root)
    log = supervisor_dir(session.root) / "supervisor.log"
    if as_json:
        presets = [str(folder) for folder in session.preset_dirs]
        health = [str(file) for file in health_files(session.environ)]
        places = {"runs_root": str(session.root), "sockets": str(sockets), "supervisor_log": str(log)}
        others = [{"root": other.root, "live": other.live} for other in elsewhere]
        found = {"presets": presets, "health": health, "elsewhere": others}
        write_document(places | found | {it: _source(it) for it in TAKEN})
        return
    table = Table(("what", "where"))
    table.add("runs", str(session.root))
    for other in elsewhere:
        table.add("also live", f"{other.root}{other.remark}")
    table.add("sockets", str(sockets))
    table.add("supervisor log", str(log))
    for folder in session.preset_dirs:
        table.add("presets", str(folder) if folder.is_dir() else f"{folder} (absent)")
    for file in health_files(session.environ):
        table.add("health limits", str(file) if file.is_file() else f"{file} (absent)")
    for name in TAKEN:
        table.add(name, _source(name))
    table.write(sys.stdout)


def _source(name: str) -> str:
    spec = find_spec(f"mission_tui.{name}")
    assert spec is not None
    assert spec.origin is not None
    return spec.origin
