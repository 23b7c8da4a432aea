"""What is passed on of a run: each line once, whatever the tracker does, and nothing that is secret."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from mission_tui.fleet.events.metrics import CheckpointSaved
from mission_tui.fleet.specs.spec import Spec
from mission_tui.records.jsonl import AppendLog
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.tracking import __main__ as tracking
from mission_tui.trainer.tracking.__main__ import Forwarding, main, read_state
from mission_tui.trainer.tracking.news import About, Evaluated, FindingNews, Point, Saved, about
from tests.fleet.recorded import SPEC, STEPS
from tests.trainer.tracking.recorded_run import recorded_run

RETURN = "rollout/ep_rew_mean"


class Listening:
    """A tracker that keeps what it is told, and fails as often as `failing` says."""

    where, local, handle = "nowhere", True, "one"
    known: int | None = None

    def __init__(self, failing: int = 0) -> None:
        self.failing = failing
        self.heard: list[Point] = []
        self.told: list[FindingNews] = []
        self.saved: list[Saved] = []
        self.evaluated: list[Evaluated] = []
        self.settled: list[About] = []
        self.went_back: list[int] = []
        self.outcome = ""

    def settle(self, about: About) -> None:
        self.settled.append(about)

    def back_to(self, timesteps: int) -> None:
        self.went_back.append(timesteps)

    def points(self, points: Sequence[Point]) -> None:
        if self.failing:
            self.failing -= 1
            raise ConnectionError("the network is gone")
        self.heard += points

    def tell(self, told: FindingNews) -> None:
        self.told.append(told)

    def save(self, saved: Saved) -> None:
        self.saved.append(saved)

    def played(self, played: Evaluated) -> None:
        self.evaluated.append(played)

    def end(self, outcome: str) -> None:
        self.outcome = outcome

    def leave(self) -> None:
        pass


def tracked(*, checkpoints: bool = False) -> Spec:
    """The recorded run's spec with a tracker."""
    return structs.replace(SPEC, run=structs.replace(SPEC.run, track="wandb", track_checkpoints=checkpoints))


def listen(monkeypatch: pytest.MonkeyPatch, listening: Listening) -> None:
    """Have `listening` be every tracker."""
    monkeypatch.setattr(tracking, "connect", lambda *_words, **_online: listening)


def test_everything_of_a_run_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Updates, the evaluation, the finding's beginning and end, where an attempt went back to, and the outcome."""
    run, listening = recorded_run(tmp_path, tracked(checkpoints=True)), Listening()
    listen(monkeypatch, listening)
    assert main([str(run.path)]) == 0
    returns = [point.timesteps for point in listening.heard if RETURN in point.values]
    assert returns == [STEPS * it for it in (1, 2, 3, 4, 3, 4, 5, 6, 7, 8, 9, 10)]
    played = next(point for point in listening.heard if "eval/mean_reward" in point.values)
    assert (played.timesteps, dict(played.values)) == (
        10 * STEPS,
        {"eval/mean_reward": 123.0, "eval/std_reward": 4.0, "eval/success_rate": 0.5},
    )
    assert [(told.timesteps, told.level) for told in listening.told] == [(3 * STEPS, 2.0), (3 * STEPS, 0.0)]
    assert listening.went_back == [2 * STEPS]
    assert [saved.folder for saved in listening.saved] == [run.checkpoints / "000010240"]
    assert listening.settled[0].settings["ppo.batch_size"] == 256
    assert listening.outcome == "finished"
    state = read_state(run, "wandb")
    assert state is not None
    assert state.complete


def test_checkpoints_are_passed_on_only_where_that_was_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `run.track_checkpoints` none is."""
    listening = Listening()
    listen(monkeypatch, listening)
    assert main([str(recorded_run(tmp_path, tracked()).path)]) == 0
    assert not listening.saved


@pytest.mark.parametrize("name", ["/etc", "../../mine", "..", ".tmp-000010240"])
def test_no_name_leads_out_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A run that was adopted may say that any folder of its user is a checkpoint of it: none is passed on."""
    run, listening = recorded_run(tmp_path, tracked(checkpoints=True)), Listening()
    log = AppendLog(run.metrics)
    log.append(lambda seq: CheckpointSaved(seq, 2, 10, 10 * STEPS, 119.5, name, "end"))
    log.close()
    listen(monkeypatch, listening)
    assert main([str(run.path)]) == 0
    assert [saved.folder.name for saved in listening.saved] == ["000010240"]


def test_no_link_is_taken_for_a_part_of_a_checkpoint(tmp_path: Path) -> None:
    """Trackers follow links: neither a folder that is one, nor one that holds one, is there for them."""
    run = recorded_run(tmp_path, tracked(checkpoints=True))
    whole = Saved(1, run.checkpoints / "000010240")
    assert whole.is_there
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "id_rsa").write_text("secret")
    (run.checkpoints / "000000001").symlink_to(tmp_path / "mine")
    assert not Saved(1, run.checkpoints / "000000001").is_there
    assert not Saved(1, run.checkpoints / "000000002").is_there
    (whole.folder / "state.npz").symlink_to(tmp_path / "mine" / "id_rsa")
    assert not Saved(1, whole.folder).is_there


def test_what_failed_is_tried_again_from_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that is gone twice loses nothing and doubles nothing; the reason stands in the state meanwhile."""
    run, listening = recorded_run(tmp_path, tracked()), Listening(failing=2)
    listen(monkeypatch, listening)
    forwarding = Forwarding(run)
    for _ in range(2):
        with pytest.raises(ConnectionError) as raised:
            forwarding.step()
        forwarding.fail(raised.value)
        state = read_state(run, "wandb")
        assert state is not None
        assert state.trouble == "wandb: the network is gone"
        assert not state.complete
    assert forwarding.step()
    seqs = [point.seq for point in listening.heard]
    assert seqs == sorted(set(seqs))
    assert len(seqs) == 13
    state = read_state(run, "wandb")
    assert state is not None
    assert state.trouble == ""


def test_a_later_process_goes_on_where_the_first_was_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a run that was passed on nothing is passed on again; a service that lacks the end gets it again."""
    run, listening = recorded_run(tmp_path, tracked()), Listening()
    listen(monkeypatch, listening)
    assert main([str(run.path)]) == 0
    again = Listening()
    listen(monkeypatch, again)
    assert main([str(run.path)]) == 0
    assert not again.heard
    again.known = listening.heard[-3].seq
    assert main([str(run.path)]) == 0
    assert [point.seq for point in again.heard] == [point.seq for point in listening.heard[-2:]]


def test_what_a_policy_came_to_after_the_end_is_passed_on_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of `evaluate`, by its checkpoint; not one of random actions, nor a periodic one, which metrics have."""
    run, listening = recorded_run(tmp_path, tracked()), Listening()
    listen(monkeypatch, listening)
    assert main([str(run.path)]) == 0
    run.evaluations.mkdir()
    result = {"checkpoint": "000010240", "t": 130.0, "mean": 480.0, "std": 5.0, "won": None, "episodes": 20}
    for name, policy in (("000010240-a", "trained"), ("000010240-b", "random"), ("000010240-periodic", "trained")):
        (run.evaluations / f"{name}.json").write_text(json.dumps(result | {"policy": policy}))
    (run.evaluations / "half.json").write_text("{")
    for _ in range(2):
        assert main([str(run.path)]) == 0
    values = {"evaluate/mean_reward": 480.0, "evaluate/std_reward": 5.0, "evaluate/episodes": 20.0}
    assert listening.evaluated == [Evaluated("000010240-a.json", 130.0, 10_240, values)]


def test_one_process_at_a_time_passes_a_run_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one leaves at once, with the exit code that says so."""
    run = recorded_run(tmp_path, tracked())
    codes: list[int] = []

    def second(*_words: Any, **_online: Any) -> Listening:
        codes.append(main([str(run.path)]))
        return Listening()

    monkeypatch.setattr(tracking, "connect", second)
    assert main([str(run.path)]) == 0
    assert codes == [75]


def test_a_run_that_names_no_tracker_is_refused_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the exit code says that trying again does not help."""
    assert main([str(recorded_run(tmp_path).path)]) == 78
    assert "names no tracker" in capsys.readouterr().err


def test_secrets_are_not_passed_on(tmp_path: Path) -> None:
    """Variables that are not known to be harmless, and words that look like tokens or are called so, are stars."""
    command = ("python", "train.py", "--login", "hf_abcdefghijklmnopqrstuvwx", "{lr}", "--api-key", "tulip")
    spec = structs.replace(
        SPEC,
        run=structs.replace(
            SPEC.run, command=command, values={"lr": "0.1"}, env={"WANDB_MODE": "offline", "MY_PASSWORD": "tulip"}
        ),
    )
    said = about(recorded_run(tmp_path, spec)).settings
    assert said["run.env.MY_PASSWORD"] == "***"
    assert said["run.env.WANDB_MODE"] == "offline"
    assert said["run.command"] == ["python", "train.py", "--login", "***", "{lr}", "--api-key", "***"]
    assert "tulip" not in str(said)


def test_settings_that_do_nothing_in_a_run_are_not_passed_on(tmp_path: Path) -> None:
    """Of a command none of the built-in trainer's; of no run those of other launchers; the engine as it is."""
    command = structs.replace(SPEC, run=structs.replace(SPEC.run, command=("python", "train.py")))
    for spec, idle in ((command, {"run.engine", "env.id", "evaluate.episodes"}), (SPEC, {"slurm.pack", "ray.requeue"})):
        folder = tmp_path / str(len(idle))
        folder.mkdir()
        run = recorded_run(folder, spec)
        run.attempt(2).path.mkdir(parents=True)
        run.attempt(2).effective.write_text('[run]\nengine = "stock"\n')
        said = about(run).settings
        assert not idle & said.keys()
        assert "run.grace_s" in said
    assert said["run.engine"] == "stock"


# What protobuf's own extension does is nobody's fault here.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboards_own_reader_has_it(tmp_path: Path) -> None:
    """Curves as one line although an attempt went back, the finding as text, and the settings."""
    pytest.importorskip("tensorboard", reason="the tensorboard extra is not installed")
    from tensorboard.backend.event_processing import event_accumulator

    run = recorded_run(tmp_path)
    assert main([str(run.path), "tensorboard"]) == 0
    read: Any = event_accumulator.EventAccumulator(str(run.path))
    read.Reload()
    assert [point.step for point in read.Scalars(RETURN)] == [STEPS * it for it in range(1, 11)]
    assert [point.value for point in read.Scalars("eval/mean_reward")] == [123.0]
    assert read.Tensors("findings/kl-persistent")[0].tensor_proto.string_val[0].startswith(b"warning: KL is high")
    assert "_hparams_/session_start_info" in read.summary_metadata
    assert RunDir(run.path).track("tensorboard").exists()


# What protobuf's own extension does is nobody's fault here.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_link_with_the_name_of_an_event_file_leads_to_nothing(tmp_path: Path) -> None:
    """Files of TensorBoard's writer are closed to others, and no file elsewhere that such a name leads to."""
    pytest.importorskip("tensorboard", reason="the tensorboard extra is not installed")
    run, mine = recorded_run(tmp_path, tracked()), tmp_path / "mine"
    mine.write_text("for everybody")
    mine.chmod(0o664)
    (run.path / "events.out.tfevents.1.tracked").symlink_to(mine)
    assert main([str(run.path), "tensorboard"]) == 0
    (written,) = (it for it in run.path.glob("*.tracked") if not it.is_symlink())
    assert written.stat().st_mode & 0o777 == 0o600
    assert mine.stat().st_mode & 0o777 == 0o664
