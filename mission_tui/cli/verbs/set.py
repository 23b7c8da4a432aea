"""`mission-tui set`: other settings for a run while it trains, after saying what they do."""

from __future__ import annotations

import click

from mission_tui.cli.answers import answer_facts, print_answer
from mission_tui.cli.options import json_option, run_argument
from mission_tui.cli.session import Session, pass_session
from mission_tui.errors import EX_USAGE


@click.command("set")
@run_argument()
@click.argument("assignments", metavar="KEY=VALUE...", nargs=-1, required=True)
@click.option("--accept", is_flag=True, help="Accept what the changes do to the run.")
@json_option
@pass_session
def command(session: Session, run: str, assignments: tuple[str, ...], accept: bool, as_json: bool) -> int:
    """Change settings of a run while it trains.

    They take effect with its next update, and later attempts keep them.

    Learning rate, clip range, ent_coef, vf_coef, target_kl, n_epochs, max_grad_norm, batch_size and total_timesteps.
    Where that does harm, a verdict says which and why: exit 2, and nothing is changed.

    \b
    mission-tui set @last ppo.learning_rate=1e-4
    mission-tui set heavy-3f9a ppo.clip_range=0.1 ppo.target_kl=0.01 --accept
    """
    from mission_tui.cli.tables.documents import write_document
    from mission_tui.ipc.replies import VerdictReply
    from mission_tui.ipc.requests import Set

    with session.connect() as connection:
        answer = connection.ask(lambda id_: Set(id=id_, run=run, assignments=assignments, accept=accept))
    if as_json:
        write_document({"runs": [answer_facts(answer)]})
    else:
        print_answer(answer, "set")
    return EX_USAGE if isinstance(answer, VerdictReply) else 0
