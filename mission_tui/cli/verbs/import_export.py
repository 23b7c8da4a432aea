"""To and from stock Stable-Baselines3: `export` writes a checkpoint as a zip for `PPO.load`; `import-checkpoint` and
`import-run` make an ended run of such a zip, or of the folder that SB3 or its zoo left. `track` passes runs on by hand
to wandb, MLflow, trackio or TensorBoard: old and imported ones, and what could not be passed on while it was news.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mission_tui.cli.answers import print_accepted
from mission_tui.cli.options import complete_presets, examples, json_option, run_argument, runs_argument, set_option
from mission_tui.cli.plan import LaunchArguments, planned_one
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import print_error, write
from mission_tui.errors import EX_FAILED, EX_RESUMABLE, MissionError, UsageError, install_words
from mission_tui.fleet.specs.spec import TRACKERS

if TYPE_CHECKING:
    from mission_tui.fleet.specs.spec import LaunchItem, Spec
    from mission_tui.fleet.views.snapshot import RunView
    from mission_tui.ipc.replies import Accepted
    from mission_tui.records.runs.attempt import TrackState
    from mission_tui.records.sb3_run.folder import Sb3Folder

_HARMLESS = "sb3_contrib.common.wrappers:"
"""Wrappers that many published agents have, which write nothing and call nobody."""


@click.command(
    "export",
    epilog=examples(
        "export @last policy.zip",
        "export @last best.zip --checkpoint best",
    ),
)
@run_argument()
@click.argument("file", metavar="FILE.zip|DIR", type=click.Path(path_type=Path))
@click.option("--checkpoint", metavar="NAME", help="Export this checkpoint (default: the newest).")
@json_option
@pass_session
def export_command(session: Session, run: str, file: Path, checkpoint: str | None, as_json: bool) -> int:
    """Write a run's policy as a Stable-Baselines3 zip; those of a group as NAME.zip each into the folder DIR.

    Of a group those without a checkpoint are passed over, and one that cannot be exported keeps no other from it; the
    exit code is 1 then, and where none could be exported.
    """
    from mission_tui.cli.follow_runs import of_each_saved, views_of
    from mission_tui.cli.tables.documents import write_document
    from mission_tui.cli.tables.progress import TaskBar
    from mission_tui.ipc.requests import Export

    target = session.cwd / file
    if target.suffix != ".zip" and not target.is_dir():
        zip_name = target.with_suffix(".zip").name
        raise UsageError(f"the file must end in .zip: {zip_name}, not {target.name}; or name a folder that is there")
    if not target.parent.is_dir():
        raise UsageError(f"cannot write {target}: there is no folder {target.parent}")
    with session.connect() as connection:
        views = views_of(connection, (run,))
    if len(views) > 1 and not target.is_dir():
        raise UsageError(f"{run} is {len(views)} runs: name a folder that is there, which gets a zip of each")
    into = target.is_dir()
    exported = []

    def export(view: RunView) -> None:
        path = target / f"{view.name}.zip" if into else target
        request = partial(Export, run=view.id, path=str(path), checkpoint=checkpoint)
        with session.connect() as connection, TaskBar("export", sys.stderr) as bar:
            exported.append(bar.follow(connection.stream(lambda id_: request(id=id_))))

    code = of_each_saved(views, export, "exported")
    facts = [{"path": it.path, "checkpoint": it.checkpoint} for it in exported]
    if as_json:
        write_document(facts[0] if len(views) == 1 else {"exported": facts})
    else:
        for it in exported:
            write(it.path)
    return code


@click.command(
    "import-run",
    epilog=examples(
        "import-run logs/ppo/CartPole-v1_1 --trust",
        "import-run out --logs-only",
    ),
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--preset",
    metavar="PRESET",
    shell_complete=complete_presets,
    help="Take the settings of this preset, not those in the folder.",
)
@click.option("--name", help="Name of the run.")
@click.option("-r", "--recursive", is_flag=True, help="Take every run folder below DIR; what cannot be taken is said.")
@click.option("--trust", is_flag=True, help="You know who made its zips; only tensors and numbers are read.")
@click.option("--logs-only", is_flag=True, help="Skip its zips: a run to view, judge and compare.")
@set_option
@json_option
@pass_session
def import_run_command(
    session: Session,
    folder: Path,
    preset: str | None,
    name: str | None,
    recursive: bool,
    trust: bool,
    logs_only: bool,
    assignments: tuple[str, ...],
    as_json: bool,
) -> int:
    """Make a run of a folder that Stable-Baselines3 or its zoo left.

    Of DIR are read: progress.csv or progress.json, TensorBoard events, monitor files, the zips of PPO.save,
    vecnormalize.pkl, evaluations.npz, config.yml and args.yml.
    """
    from mission_tui.cli.tables.documents import write_document
    from mission_tui.records.sb3_run.folder import models_above, run_folders

    if trust and logs_only:
        raise UsageError("give --trust or --logs-only, not both")
    path = (session.cwd / folder).resolve()
    how = _ImportArguments(preset, name, assignments, trust=trust, logs_only=logs_only)
    if not recursive:
        print_accepted(_imported(session, path, how), as_json)
        return 0
    if name is not None:
        raise UsageError("--name is for one run; with -r each is called by its folder")
    taken: list[dict[str, Any]] = []
    refused: list[dict[str, str]] = []
    above: set[Path] = set()
    for found in run_folders(path):
        if (models := models_above(found, path)) is not None and models not in above:
            above.add(models)
            print_error(f"the zips in {models} are left out: `import-run {models}` takes its newest training with them")
        try:
            reply = _imported(session, found, how)
        except MissionError as error:
            refused.append({"folder": str(found), "why": str(error)})
            print_error(f"{found}: not imported: {error}")
            continue
        taken.append({"folder": str(found), "id": reply.runs[0], "notes": list(reply.notes)})
        if not as_json:
            write(reply.runs[0])
            for note in reply.notes:
                print_error(note)
    if as_json:
        write_document({"runs": taken, "refused": refused})
    elif not taken and not refused:
        raise UsageError(f"{path}: there is no folder of a run in it")
    return UsageError.exit_code if refused or not taken else 0


@dataclass(frozen=True, slots=True)
class _ImportArguments:
    """What the command line says of every folder that it imports."""

    preset: str | None
    name: str | None
    assignments: tuple[str, ...]
    trust: bool
    logs_only: bool


def _imported(session: Session, path: Path, how: _ImportArguments) -> Accepted:
    """The answer to the import of the folder `path`. Raises `MissionError`."""
    from mission_tui.ipc.requests import ImportRun
    from mission_tui.records.sb3_run.folder import find_folder, updates_in_table, without_strangers

    found, trust, logs_only = find_folder(path), how.trust, how.logs_only
    preset, name, assignments = how.preset, how.name, how.assignments
    if found.zips and not (trust or logs_only):
        raise UsageError(
            f"reading {found.zips[0]} runs torch's loader with your account's rights: give --trust if you know who "
            "made it (only its tensors and numbers are read, in a confined process), or --logs-only to skip it"
        )
    if found.others:
        found, notes = without_strangers(found, updates_in_table(found)[0])
        for note in notes:
            print_error(note)
    models = bool(found.zips) and not logs_only
    if preset is None:
        item = _item_of(session, found, name, assignments, models)
    else:
        item = planned_one(session, LaunchArguments((preset,), 1, name, assignments), "a folder")
    origin = session.origin
    with session.connect() as connection:
        return connection.ask(lambda id_: ImportRun(id=id_, path=str(found.path), item=item, trusted=models, **origin))


def _item_of(
    session: Session, folder: Sb3Folder, name: str | None, assignments: Sequence[str], models: bool
) -> LaunchItem:
    """The run that the folder's own words and `assignments` stand for; what could not be taken over is said."""
    from mission_tui.fleet.launch_plan import plan_launch
    from mission_tui.fleet.specs.assignment import expand
    from mission_tui.fleet.specs.preset import read_preset, resolve
    from mission_tui.records.sb3_run.folder import find_settings, updates_in_table

    path = folder.path
    updates, _ = updates_in_table(folder)
    runs = expand(assignments)
    if len(runs) != 1:
        raise UsageError(f"--set asks for {len(runs)} runs, but a folder is one run: give one value of each")
    words = runs[0]
    said = find_settings(folder, updates, zips=models, env=all(word.key != "env.id" for word in words))
    for note in said.notes:
        print_error(note)
    head = {"name": _preset_name(path.name), "description": f"imported from {path.name}"}
    file = read_preset({**head, **said.tables}, said.source)
    spec = resolve(file, lambda _: file, words, session.health())
    _say_code(spec, {word.key for word in words}, models=models)
    return plan_launch([spec], title=spec.preset, tag="", name=name)[0]


def _say_code(spec: Spec, said: Collection[str], *, models: bool) -> None:
    """Say what code the folder's own words name, those keys left out that a person `said`. Where `models` are read, it
    would be loaded to make their environment: raises `UsageError`, as nobody has asked for that.
    """
    from mission_tui.fleet.specs.env_ids import PUBLISHED
    from mission_tui.fleet.specs.own_code import own_code, own_code_words

    code = [
        it
        for it in own_code(spec)
        if not any(re.match(rf"{re.escape(key)}($|[.\[])", it.key) for key in said)
        and not it.value.startswith(_HARMLESS)
        and re.split(r"[.:]", it.value)[0] not in PUBLISHED
    ]
    if not code:
        return
    words = own_code_words(code)
    if not models:
        print_error(f"note: its settings name code, which a clone of it would run: {words}")
        return
    keys = dict.fromkeys(".".join(re.split(r"[.\[]", it.key)[:2]) for it in code)
    raise UsageError(
        f"its settings name code, which would run with your account's rights, and --trust is about its zips alone: "
        f"{words}; if you mean that, say it yourself: {' '.join(f'--set {key}=...' for key in keys)}; or take "
        "--logs-only, or --preset"
    )


def _preset_name(folder: str) -> str:
    """The folder's name, as far as a preset can be called so."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", folder).strip("-._")[:64] or "imported"


@click.command(
    "import-checkpoint",
    epilog=examples(
        "import-checkpoint model.zip --preset cartpole --trust",
        "evaluate @last",
    )
    + "\n\nA folder of SB3 or its zoo, as in rl-trained-agents, is for import-run: "
    "its settings and vecnormalize.pkl come along.",
)
@click.argument("file", metavar="FILE.zip", type=click.Path(path_type=Path))
@click.option(
    "--preset",
    metavar="PRESET",
    shell_complete=complete_presets,
    help="What it was trained on: environment, network, settings. Required.",
)
@click.option("--name", help="Name of the run.")
@click.option("--trust", is_flag=True, help="You know who made the file; only tensors and numbers are read.")
@set_option
@json_option
@pass_session
def import_checkpoint_command(
    session: Session,
    file: Path,
    preset: str | None,
    name: str | None,
    trust: bool,
    assignments: tuple[str, ...],
    as_json: bool,
) -> None:
    """Make a run of a foreign Stable-Baselines3 zip."""
    from mission_tui.ipc.requests import ImportCheckpoint

    path = session.cwd / file
    if path.is_dir():
        raise UsageError(f"{path} is a folder; take: mission-tui import-run {shlex.quote(str(file))} --trust")
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    beside = _beside(path)
    if preset is None:
        raise UsageError(
            f"say with --preset on what {path.name} was trained (environment, network, settings)"
            + (f"; or {beside}" if beside else "")
        )
    if beside:
        print_error(f"only {path.name} is taken; {beside}")
    item, origin = planned_one(session, LaunchArguments((preset,), 1, name, assignments), "a file"), session.origin
    with session.connect() as connection:
        reply = connection.ask(lambda id_: ImportCheckpoint(id=id_, path=str(path), item=item, trusted=trust, **origin))
    print_accepted(reply, as_json)


def _beside(model: Path) -> str:
    """What lies beside `model` that belongs to it, and how all of it is taken over; empty where nothing does."""
    from mission_tui.records.sb3_run.folder import find_folder
    from mission_tui.records.sb3_run.normalizer_file import STATISTICS

    try:
        folder = find_folder(model.parent)
    except UsageError:
        return ""
    # What `export` wrote beside it is taken with the zip.
    own = model.with_suffix(STATISTICS)
    besides = folder.settings, folder.statistics_of(model)
    kept = [path.name for path in besides if path is not None and path != own]
    if not kept:
        return ""
    return f"mission-tui import-run {shlex.quote(str(model.parent))} --trust takes its {' and '.join(kept)} along"


@click.command(
    "track",
    epilog=examples(
        "track @last --to mlflow",
        "track lr-sweep",
    ),
)
@runs_argument(required=True)
@click.option("--to", "tracker", type=click.Choice(TRACKERS), help="Where to, if run.track of a run does not say it.")
@json_option
@pass_session
def track_command(session: Session, runs: tuple[str, ...], tracker: str | None, as_json: bool) -> int:
    """Pass runs on to an experiment tracker: what it does not have yet, from the beginning or from where it was left.

    A run with run.track is passed on by itself while it trains. This is for others, and for what is left after a lost
    network or login. Keys and addresses are those of your shell.
    """
    from mission_tui.cli.follow_runs import views_of

    with session.connect() as connection:
        views = views_of(connection, runs)
    if not views:
        raise UsageError("no run is meant: name runs or groups, as `mission-tui status` lists them")
    if tracker is not None and find_spec(tracker) is None:
        raise MissionError(f"{tracker} is not installed; {install_words(tracker)}")
    states: dict[str, TrackState] = {}
    failed = False
    for view in views:
        try:
            states[view.id] = _passed_on(session, view, tracker)
        except MissionError as error:
            failed = True
            print_error(f"{view.name}: {error}")
            continue
        if not as_json:
            write(f"{view.name}: {states[view.id].where}")
    if as_json:
        from mission_tui.cli.tables.documents import write_document

        write_document({"runs": [{"run": run_id, "tracker": it.tracker, "where": it.where, "online": it.online}
                                 for run_id, it in states.items()]})  # fmt: skip
    return EX_FAILED if failed else 0


def _passed_on(session: Session, view: RunView, tracker: str | None) -> TrackState:
    """How far the run has come there now. Raises `MissionError` with what its process said, and for a foreign run: its
    files would say what of this user's is passed on, and where to.
    """

    from mission_tui.records.atomic import read_json
    from mission_tui.records.runs.attempt import TrackState, read_spec
    from mission_tui.records.runs.layout import RunDir
    from mission_tui.records.runs.seal import Seals, check_seal
    from mission_tui.run_module import module_words

    run_dir = RunDir(Path(view.run_dir))
    check_seal(Seals.of(session.environ, make=False).check(run_dir, max(1, view.attempt)), "track", view.name)
    name = tracker or read_spec(run_dir.spec).run.track
    if name is None:
        raise UsageError(f"run.track of it names no tracker; --to {', '.join(TRACKERS[:-1])} or {TRACKERS[-1]}")
    argv = (*module_words("mission_tui.trainer.tracking"), str(run_dir.path), name, "--once")
    # wandb takes settings of its own from the working folder, such as the address that the key is sent to, and that
    # folder may be anybody's. MLflow's address may be meant from there.
    folder = None if name == "mlflow" else "/"
    # What its libraries print would be taken for ours.
    nothing, words = subprocess.DEVNULL, subprocess.PIPE
    done = subprocess.run(argv, check=False, stdout=nothing, stderr=words, env=os.environ, cwd=folder)
    state = read_json(run_dir.track(name), TrackState)
    if done.returncode == EX_RESUMABLE:
        where = f", to {state.where}" if state is not None and state.where else ""
        raise MissionError(f"another process passes it on at this moment{where}")
    if done.returncode != 0 or state is None:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise MissionError(lines[-1] if lines else f"its process ended with exit code {done.returncode}")
    return state
