"""`mission-tui checkpoint`: save a checkpoint of runs at their next update boundary, and say what came of it."""

from __future__ import annotations

import click

from mission_tui.cli.errors import EX_INTERRUPTED, print_error
from mission_tui.cli.options import all_option, chosen, json_option, runs_argument
from mission_tui.cli.run_requests import print_accepted
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import write
from mission_tui.errors import EX_FAILED

WAIT_S = 60.0


@click.command("checkpoint")
@runs_argument()
@all_option
@click.option("--no-wait", is_flag=True, help="Return once it is asked for, not when it is written.")
@json_option
@pass_session
def command(session: Session, runs: tuple[str, ...], every: bool, no_wait: bool, as_json: bool) -> int:
    """Save a checkpoint at the next update boundary.

    Exit code 0 when all were written, 1 when one was not; the reason is said.
    """
    from mission_tui.cli.tables.documents import write_document
    from mission_tui.ipc.requests import Act

    wanted = chosen(runs, every)
    try:
        with session.connect() as connection:
            wait_s = 0.0 if no_wait else WAIT_S
            reply = connection.ask(lambda id_: Act(id=id_, verb="checkpoint", runs=wanted, wait_s=wait_s))
    except KeyboardInterrupt:
        print_error("no longer waiting; the checkpoint was asked for, and is written at the next update boundary")
        return EX_INTERRUPTED
    missing = [outcome for outcome in reply.checkpoints if outcome.checkpoint is None]
    if not reply.checkpoints:
        print_accepted(reply, as_json)
    elif as_json:
        rows = [{"id": it.run, "checkpoint": it.checkpoint, "why": it.why} for it in reply.checkpoints]
        write_document({"runs": rows, "notes": list(reply.notes)})
    else:
        for run in reply.runs:
            write(run)
        for note in reply.notes:
            print_error(note)
        for outcome in reply.checkpoints:
            if outcome.checkpoint is not None:
                print_error(f"{outcome.run}: checkpoint {outcome.checkpoint} was written")
            else:
                print_error(f"{outcome.run}: no checkpoint was written: {outcome.why}")
    return EX_FAILED if missing else 0
