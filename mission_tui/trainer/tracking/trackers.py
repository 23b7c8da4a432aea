"""wandb, MLflow, trackio and TensorBoard as one thing that is told what is new of a run.

Each is online where its own configuration says how (`wandb login`, `MLFLOW_TRACKING_URI`, `TRACKIO_SPACE_ID`), and
writes local files otherwise. What their libraries raise is raised: the caller tries again.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from mission_tui.errors import MissionError, install_words
from mission_tui.fleet.specs.flat_settings import value_word
from mission_tui.fleet.text import clean
from mission_tui.trainer.tracking.news import About, Evaluated, FindingNews, Point, Saved

PROJECT = "mission-tui"
INIT_S = 60.0
_MLFLOW_METRICS, _MLFLOW_PARAMS, _MLFLOW_CHARACTERS = 1000, 100, 5000
_MLFLOW_FORBIDDEN = re.compile(r"[^\w\-. :/]")
_FAILED = ("failed", "lost")


class Tracker(Protocol):
    """One run at one service. `where` is its address or folder, `local` whether that is on this machine alone,
    `handle` what it is found by again, and `known` the last line (`seq`) that the service says it has, None where it
    does not say.
    """

    where: str
    local: bool
    handle: str
    known: int | None

    def settle(self, about: About) -> None:
        """Its settings are these from now on."""

    def back_to(self, timesteps: int) -> None:
        """An attempt goes on from `timesteps`, before points that were sent already."""

    def points(self, points: Sequence[Point]) -> None:
        """More of its curves."""

    def tell(self, told: FindingNews) -> None:
        """A finding has opened, changed or is over."""

    def played(self, played: Evaluated) -> None:
        """What `evaluate` came to, perhaps of a checkpoint that was long passed."""

    def save(self, saved: Saved) -> None:
        """Take the checkpoint as an artifact."""

    def end(self, outcome: str) -> None:
        """The newest attempt has ended: everything has arrived when this returns."""

    def leave(self) -> None:
        """Close the connection without ending the run, and without waiting for anything."""


class Wandb:
    """A run of Weights & Biases: online where somebody is logged in, else below `wandb/` of the run directory.

    The step is the line in `metrics.jsonl`, so what is sent twice counts once; charts have the timesteps below them.
    The time of a point is its row's, which may be sent long after it was written.
    """

    def __init__(self, about: About, run_dir: Path, handle: str, *, online: bool) -> None:
        import wandb

        _refuse_link(run_dir / "wandb")
        self._wandb, self._run_id = wandb, about.id
        mode: Any = os.environ.get("WANDB_MODE") or (
            "online" if wandb.login(prompt=False, verify=False) or online else "offline"
        )
        settings = wandb.Settings(
            silent=True,
            console="off",
            init_timeout=INIT_S,
            save_code=False,
            disable_git=True,
            x_disable_stats=True,
            x_disable_meta=True,
        )
        try:
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", PROJECT),
                id=handle or about.id,
                name=about.name,
                group=about.group,
                job_type=about.preset,
                tags=list(about.labels)[:20] or None,
                dir=str(run_dir),
                config=dict(about.settings),
                resume="allow",
                mode=mode,
                settings=settings,
            )
        except BaseException:
            self.leave()
            raise
        self._run.define_metric("timesteps", hidden=True)
        self._run.define_metric("*", step_metric="timesteps")
        self.local = mode != "online"
        self.handle = str(self._run.id)
        self.where = str(Path(self._run.dir).parent) if self.local else str(self._run.url)
        self.known = None if self.local else int(self._run.starting_step) - 1

    def settle(self, about: About) -> None:
        self._run.config.update(dict(about.settings), allow_val_change=True)

    def back_to(self, timesteps: int) -> None:
        self._run.summary["went_back_to"] = timesteps

    def points(self, points: Sequence[Point]) -> None:
        for point in points:
            said = {"timesteps": point.timesteps, "_timestamp": point.t, **point.values}
            self._run.log(said, step=point.seq)

    def tell(self, told: FindingNews) -> None:
        self._run.summary[f"finding/{told.finding.id}"] = _sentence(told)

    def played(self, played: Evaluated) -> None:
        """In the summary, the newest of each checkpoint: steps only rise here, and are lines of the metrics."""
        for tag, value in played.values.items():
            self._run.summary[f"{tag}@{played.timesteps}"] = value

    def save(self, saved: Saved) -> None:
        if saved.is_there:
            artifact = self._wandb.Artifact(
                f"{self._run_id}-checkpoint", type="model", metadata={"timesteps": saved.timesteps}
            )
            artifact.add_dir(str(saved.folder))
            self._run.log_artifact(artifact)

    def end(self, outcome: str) -> None:
        self._run.summary["outcome"] = outcome
        self._run.finish(exit_code=1 if outcome in _FAILED else 0)

    def leave(self) -> None:
        with suppress(Exception):
            self._wandb.teardown(exit_code=0)


class Mlflow:
    """A run of MLflow: where `MLFLOW_TRACKING_URI` says, else in the folder `mlruns` of the runs root."""

    known: int | None = None

    def __init__(self, about: About, run_dir: Path, handle: str, *, online: bool) -> None:
        uri = os.environ.get("MLFLOW_TRACKING_URI", "")
        if online and not uri:
            raise MissionError("MLFLOW_TRACKING_URI is not set any more, and this run is at the server that it named")
        self.local = not uri
        self._store = run_dir.absolute().parent / "mlruns"
        self._saves = about.settings.get("run.track_checkpoints") is True
        if self.local:
            _refuse_link(self._store)
            uri = self._store.as_uri()
            # Its authors prefer a database, which several processes on a network file system would destroy.
            os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
        from mlflow import MlflowClient
        from mlflow.entities import Metric, Param, RunTag

        self._metric, self._param, self._tag = Metric, Param, RunTag
        self._client = MlflowClient(tracking_uri=uri)
        self.where = uri.removeprefix("file://")
        self._said: dict[str, str] = {}
        self.handle = handle or self._found(about) or self._made(about)
        run = self._client.get_run(self.handle)
        if self.local:
            self._check_written_inside(run.info.experiment_id, run.info.run_id, run.info.artifact_uri)
        self._params = dict(run.data.params)
        if run.info.status != "RUNNING":
            self._client.update_run(self.handle, status="RUNNING")

    def _experiment(self) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        found = self._client.get_experiment_by_name(name)
        if found is None:
            with suppress(Exception):  # another run's process may have made it at this moment
                return str(self._client.create_experiment(name))
            found = self._client.get_experiment_by_name(name)
        if found is None:
            raise MissionError(f"there is no experiment '{name}' at {self.where}, and none can be made")
        if self.local:
            self._check_written_inside(found.experiment_id, "", found.artifact_location)
        return str(found.experiment_id)

    def _check_written_inside(self, experiment: str, run: str, artifacts: str) -> None:
        """Raise `MissionError` if the store, which may have come with its runs root, has what is written for the
        `run` (none yet: empty) arrive elsewhere: through links, or by what it says of where artifacts go.
        """
        folder = self._store / experiment / run
        members = (Path(at, name) for at, folders, names in os.walk(folder) for name in (*folders, *names))
        for path in (self._store / experiment, folder, *(members if run else ())):
            _refuse_link(path)
        if not self._saves:
            return
        at = urlsplit(artifacts)
        own = at.scheme in ("", "file") and Path(unquote(at.path)).resolve().is_relative_to(self._store.resolve())
        if not own:
            raise MissionError(
                f"{self._store} says that checkpoints go to {clean(artifacts, 200)}, which is elsewhere: set "
                "MLFLOW_TRACKING_URI, or MLFLOW_EXPERIMENT_NAME to a new name"
            )

    def _found(self, about: About) -> str:
        """The run that an earlier process made and could not write down."""
        runs = self._client.search_runs([self._experiment()], f"tags.`mission_tui.run` = '{about.id}'", max_results=1)
        return str(runs[0].info.run_id) if runs else ""

    def _made(self, about: About) -> str:
        tags = {"mission_tui.run": about.id, "mission_tui.preset": about.preset}
        if about.group is not None:
            tags["mission_tui.group"] = about.group
        tags |= {f"mission_tui.label.{_mlflow_key(label)}": "true" for label in about.labels}
        run = self._client.create_run(self._experiment(), run_name=about.name, tags=tags)
        return str(run.info.run_id)

    def settle(self, about: About) -> None:
        """A parameter of MLflow never changes: what is set later is a tag."""
        words = {_mlflow_key(name): value_word(value)[:_MLFLOW_CHARACTERS] for name, value in about.settings.items()}
        fresh = [self._param(name, word) for name, word in words.items() if name not in self._params]
        changed = [
            self._tag(f"set.{name}", word) for name, word in words.items() if self._params.get(name, word) != word
        ]
        for at in range(0, len(fresh), _MLFLOW_PARAMS):
            self._client.log_batch(self.handle, params=fresh[at : at + _MLFLOW_PARAMS])
        for at in range(0, len(changed), _MLFLOW_PARAMS):
            self._client.log_batch(self.handle, tags=changed[at : at + _MLFLOW_PARAMS])
        self._params |= {it.key: it.value for it in fresh}

    def back_to(self, timesteps: int) -> None:
        self._client.set_tag(self.handle, "went_back_to", str(timesteps))

    def points(self, points: Sequence[Point]) -> None:
        metrics = [
            self._metric(_mlflow_key(tag), value, int(1000 * point.t), point.timesteps)
            for point in points
            for tag, value in point.values.items()
        ]
        for at in range(0, len(metrics), _MLFLOW_METRICS):
            self._client.log_batch(self.handle, metrics=metrics[at : at + _MLFLOW_METRICS])

    def tell(self, told: FindingNews) -> None:
        self._client.set_tag(self.handle, f"finding.{_mlflow_key(told.finding.id)}", _sentence(told))

    def played(self, played: Evaluated) -> None:
        self.points([Point(0, played.t, played.timesteps, played.values)])

    def save(self, saved: Saved) -> None:
        if saved.is_there:
            self._client.log_artifacts(self.handle, str(saved.folder), f"checkpoints/{saved.folder.name}")

    def end(self, outcome: str) -> None:
        self._client.set_tag(self.handle, "outcome", outcome)
        status = "FAILED" if outcome in _FAILED else "KILLED" if outcome == "killed" else "FINISHED"
        self._client.set_terminated(self.handle, status)

    def leave(self) -> None:
        """Nothing is open."""


class Trackio:
    """A run of trackio: in the Space that `TRACKIO_SPACE_ID` names or at `TRACKIO_SERVER_URL`, else where
    `trackio show` looks on this machine.
    """

    known: int | None = None

    def __init__(self, about: About, run_dir: Path, handle: str, *, online: bool) -> None:
        import trackio

        space, server = (os.environ.get(f"TRACKIO_{name}") for name in ("SPACE_ID", "SERVER_URL"))
        if online and not (space or server):
            raise MissionError("TRACKIO_SPACE_ID is not set any more, and this run is in the Space that it named")
        self._trackio, self._id = trackio, about.id
        self.local, self.handle = not (space or server), handle or about.id
        project = os.environ.get("TRACKIO_PROJECT", PROJECT)
        self._run = trackio.init(
            project=project,
            name=self.handle,
            group=about.group,
            space_id=space,
            config={name.replace(".", "/"): value_word(value) for name, value in about.settings.items()},
            resume="allow",
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
        at = f"https://huggingface.co/spaces/{space}" if space else str(server).partition("?")[0]
        self.where = f"trackio show --project {project}" if self.local else at

    def settle(self, about: About) -> None:
        """It takes the settings at the beginning alone."""

    def back_to(self, timesteps: int) -> None:
        """Its curves show that themselves."""

    def points(self, points: Sequence[Point]) -> None:
        for point in points:
            self._run.log(dict(point.values), step=point.timesteps)

    def tell(self, told: FindingNews) -> None:
        if told.level > 1:
            level = self._trackio.AlertLevel.ERROR if told.level == 3 else self._trackio.AlertLevel.WARN
            self._run.alert(told.finding.rule, _sentence(told), level)

    def played(self, played: Evaluated) -> None:
        self._run.log(dict(played.values), step=played.timesteps)

    def save(self, saved: Saved) -> None:
        if saved.is_there:
            self._run.log_artifact(saved.folder, name=f"{self._id}-checkpoint", type="model")

    def end(self, outcome: str) -> None:
        self._run.finish()

    def leave(self) -> None:
        """Its thread ends with this process."""


class TensorBoard:
    """Event files in the run directory: curves, settings as hyper-parameters, findings as text."""

    known: int | None = None
    local = True
    handle = ""

    def __init__(self, about: About, run_dir: Path, handle: str, *, online: bool) -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._writer = EventFileWriter(str(run_dir), filename_suffix=".tracked")
        self._writer.flush()
        self.where = str(run_dir)
        self._settled: Mapping[str, Any] = {}

    def settle(self, about: About) -> None:
        from tensorboard.plugins.hparams.metadata import SESSION_START_INFO_TAG
        from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionStartInfo

        info = SessionStartInfo(group_name=about.name, start_time_secs=time.time())
        for name, value in about.settings.items():
            match value:
                case bool():
                    info.hparams[name].bool_value = value
                case int() | float():
                    info.hparams[name].number_value = value
                case _:
                    info.hparams[name].string_value = value_word(value)
        if info.hparams != self._settled:
            self._settled = dict(info.hparams)
            self._hparams(SESSION_START_INFO_TAG, HParamsPluginData(session_start_info=info))

    def back_to(self, timesteps: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        mark = SessionLog(status=SessionLog.START)
        self._writer.add_event(Event(session_log=mark, step=timesteps + 1, wall_time=time.time()))

    def points(self, points: Sequence[Point]) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary

        for point in points:
            values = [Summary.Value(tag=tag, simple_value=value) for tag, value in point.values.items()]
            self._write(Summary(value=values), point.timesteps, point.t)
        self._writer.flush()

    def played(self, played: Evaluated) -> None:
        self.points([Point(0, played.t, played.timesteps, played.values)])

    def tell(self, told: FindingNews) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.compat.proto.tensor_pb2 import TensorProto
        from tensorboard.compat.proto.types_pb2 import DT_STRING

        tag = f"findings/{told.finding.rule}"
        tensor = TensorProto(dtype=DT_STRING, string_val=[_sentence(told).encode()])
        value = Summary.Value(tag=tag, metadata=_plugin("text", b""), tensor=tensor)
        self._write(Summary(value=[value]), told.timesteps, told.t)

    def save(self, saved: Saved) -> None:
        """Event files hold no files; a launch says so."""

    def end(self, outcome: str) -> None:
        from tensorboard.plugins.hparams.api_pb2 import STATUS_FAILURE, STATUS_SUCCESS
        from tensorboard.plugins.hparams.metadata import SESSION_END_INFO_TAG
        from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo

        status = STATUS_FAILURE if outcome in _FAILED else STATUS_SUCCESS
        info = SessionEndInfo(status=status, end_time_secs=time.time())
        self._hparams(SESSION_END_INFO_TAG, HParamsPluginData(session_end_info=info))
        self._writer.close()

    def leave(self) -> None:
        self._writer.close()

    def _hparams(self, tag: str, content: Any) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary

        value = Summary.Value(tag=tag, metadata=_plugin("hparams", content.SerializeToString()))
        self._write(Summary(value=[value]), 0, time.time())

    def _write(self, summary: Any, step: int, t: float) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._writer.add_event(Event(summary=summary, step=step, wall_time=t))


def _plugin(name: str, content: bytes) -> Any:
    """How TensorBoard knows which of its plugins a value is for."""
    from tensorboard.compat.proto.summary_pb2 import SummaryMetadata

    return SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=name, content=content))


_MAKERS: Mapping[str, Callable[..., Tracker]] = {
    "wandb": Wandb,
    "mlflow": Mlflow,
    "trackio": Trackio,
    "tensorboard": TensorBoard,
}


def connect(name: str, about: About, run_dir: Path, handle: str, *, online: bool) -> Tracker:
    """The run at the tracker `name`, made there or found again by its `handle`. `online`: it was so before, and local
    files are no place for the rest of it.

    Raises `MissionError` where its package is not installed, and whatever that package raises.
    """
    if find_spec(name) is None:
        raise MissionError(f"{name} is not installed; {install_words(name)}")
    return _MAKERS[name](about, run_dir, handle, online=online)


def _sentence(told: FindingNews) -> str:
    finding = told.finding
    state = "over" if finding.state == "cleared" else finding.severity
    return f"{state}: {finding.sentence}; {finding.cause}"[:_MLFLOW_CHARACTERS]


def _refuse_link(path: Path) -> None:
    """Raise `MissionError` where what a library writes at `path` would arrive in another folder or file."""
    with suppress(FileNotFoundError):
        facts = path.lstat()
        if stat.S_ISLNK(facts.st_mode) or (stat.S_ISREG(facts.st_mode) and facts.st_nlink > 1):
            raise MissionError(f"{path} is a link, and what is written there would arrive elsewhere: remove it")


def _mlflow_key(tag: str) -> str:
    """`tag` as a name of MLflow, which may have letters, digits and a few signs."""
    return _MLFLOW_FORBIDDEN.sub("_", tag)[:240]
