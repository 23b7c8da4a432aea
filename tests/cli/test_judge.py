"""`judge`: findings of logs from anywhere, by their own settings where they have them, and one clear line otherwise."""

from __future__ import annotations

import importlib.util
import json
import os
import pty
import sys
import termios
from collections import Counter
from io import StringIO
from pathlib import Path
from typing import Any

import click
import pytest
from msgspec import structs

from mission_tui.cli import terminal_output
from mission_tui.cli.root import main
from mission_tui.cli.verbs import judge
from mission_tui.records.jsonl import encode_line
from mission_tui.records.logs import event_files
from mission_tui.records.logs.log import LogError
from mission_tui.records.runs.attempt import write_spec
from tests.cli.test_json_documents import check
from tests.drawn import drawn
from tests.fleet.recorded import SPEC, update
from tests.shell import Shell

HEAD = "time/iterations,time/total_timesteps,train/approx_kl,train/n_updates\n"
SICK = HEAD + "".join(f"{k},{k * 2048},0.09,{k * 10}\n" for k in range(1, 21))
CALM = HEAD + "".join(f"{k},{k * 2048},0.01,{k * 10}\n" for k in range(1, 21))
TRACES = Path(__file__).resolve().parents[3] / "shared" / "data" / "traces"

needs_tensorboard = pytest.mark.skipif(
    importlib.util.find_spec("tensorboard") is None, reason="the tensorboard extra is not installed"
)


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No presets and no health file but those a test makes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name, text in (("sick.csv", SICK), ("calm.csv", CALM)):
        (tmp_path / name).write_text(text)


def judged(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """The document that `judge` prints."""
    assert main(["judge", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys: pytest.CaptureFixture[str], *words: str, code: int = 2) -> str:
    """The one line on stderr of a call that prints nothing."""
    assert main(["judge", *words]) == code
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    return line


def test_findings_are_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0, a head line per file with what was known of it, and each finding with cause and advice."""
    assert main(["judge", "sick.csv", "calm.csv", "--full", "--batch-size", "64"]) == 0
    out = capsys.readouterr().out
    assert "sick.csv: 20 updates, 1 finding\n  steps 40,960, rollout 2,048, batch size 64, epochs 10" in out
    assert "warning kl-persistent, updates 5 to 20, open" in out
    assert "cause: learning rate and gradient steps per update are not in this log" in out
    assert (
        "advice: end an update early, once it has moved the policy far enough (in your script: target_kl 0.03)" in out
    )
    assert "--set" not in out
    assert "calm.csv: 20 updates, no findings" in out


def test_rows_that_are_missing_are_no_silence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A third of a log is gone: its steps show that the training went on. The same time with one row's steps is one."""
    head, rows = (
        "time/total_timesteps,train/approx_kl,wall_time\n",
        [f"{k * 2048},0.01,{1e9 + k * 9}\n" for k in range(1, 99)],
    )
    (tmp_path / "gap.csv").write_text(head + "".join(rows[:30] + rows[60:]))
    stood = [f"{k * 2048},0.01,{1e9 + k * 9 + 270 * (k > 30)}\n" for k in range(1, 69)]
    (tmp_path / "stood.csv").write_text(head + "".join(stood))
    found = {it: [finding["rule"] for finding in judged(capsys, it)["findings"]] for it in ("gap.csv", "stood.csv")}
    assert "hang" not in found["gap.csv"]
    assert "hang" in found["stood.csv"]


def test_a_symptom_says_of_what_it_is_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The advice to follow is that of what began first."""
    rows = "".join(f"{k},{k * 2048},0.09,{k * 10},0.6\n" for k in range(3, 23))
    (tmp_path / "both.csv").write_text(HEAD.strip() + ",train/clip_fraction\n" + rows)
    assert main(["judge", "both.csv"]) == 0
    out = capsys.readouterr().out
    assert "warning kl-persistent, updates 7 to 22, open\n" in out
    assert "clip-fraction, updates 7 to 22, open, part of kl-persistent\n" in out


def test_one_file_is_an_object_and_several_are_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    """The document of one file is the one in the reference; of several, each stands under `files` in order."""
    one = judged(capsys, "sick.csv")
    check("judge", one)
    assert (one["file"], one["updates"], one["findings"][0]["rule"]) == ("sick.csv", 20, "kl-persistent")
    several = judged(capsys, "calm.csv", "sick.csv")
    assert [it["file"] for it in several["files"]] == ["calm.csv", "sick.csv"]
    assert several["files"][1]["findings"] == one["findings"]


@pytest.mark.parametrize(
    ("columns", "name"),
    [
        ("rollout/exploration_rate,train/loss", "DQN"),
        ("train/policy_loss,train/value_loss", "A2C"),
        ("train/ent_coef,train/critic_loss", "SAC"),
        ("train/actor_loss,train/critic_loss", "TD3"),
    ],
)
def test_the_log_of_another_algorithm_is_judged_by_what_fits_it(
    columns: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its entropy, explained variance and speed mean other things, and so do the numbers of its rows."""
    head = f"time/total_timesteps,rollout/ep_rew_mean,{columns},train/entropy_loss,train/explained_variance\n"
    lines = [f"{40 * k},{20 + 10 * (k // 7 % 2)},0.5,0.1,-0.0001,-0.9\n" for k in range(1, 3001)]
    (tmp_path / "other.csv").write_text(head + "".join(lines) + "120040,25,nan,0.1,0,0\n")
    document = judged(capsys, "other.csv")
    assert (document["algorithm"], document["updates"]) == (name, 3001)
    fitting = {"hang", "nan", "drawdown", "plateau", "stall", "throughput", "value-loss", "ent-coef"}
    assert {finding["rule"] for finding in document["findings"]} <= fitting
    assert not fitting.intersection(document["unfit"]) - {"ent-coef"}
    assert {"kl-persistent", "explained-variance", "reward-oscillation"} < set(document["unfit"])
    assert "nan" in {finding["rule"] for finding in document["findings"]}
    assert main(["judge", "other.csv"]) == 0
    out = capsys.readouterr().out
    assert "other.csv: 3,001 rows" in out
    assert f"a log of {name} or its kin" in out
    assert "not for this algorithm: actions-at-bound, " in out


def test_rows_of_several_updates_are_what_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A log interval of 10 gives one verdict, with iterations and without, and no number beyond those there are."""
    cells = "time/total_timesteps,rollout/ep_rew_mean,train/loss,train/approx_kl,train/clip_range"
    lines = [f"{20480 * k},20,0.1,0.09,0.2\n" for k in range(1, 21)]
    (tmp_path / "without.csv").write_text(f"{cells}\n" + "".join(lines))
    numbered = [f"{10 * k},{line}" for k, line in enumerate(lines, 1)]
    (tmp_path / "with.csv").write_text(f"time/iterations,{cells}\n" + "".join(numbered))
    one, other = (judged(capsys, name) for name in ("with.csv", "without.csv"))
    assert one["findings"] == other["findings"]
    (finding,) = [it for it in one["findings"] if it["rule"] == "kl-persistent"]
    assert (finding["first_update"], finding["last_update"], one["updates"]) == (5, 20, 20)
    assert main(["judge", "with.csv"]) == 0
    out = capsys.readouterr().out
    assert "with.csv: 20 rows" in out
    assert "each row tells of 10 updates" in out
    assert " kl-persistent, rows 5 to 20 (steps 102,400 to 409,600), open" in out
    assert "    rows 1-16 changed the policy too much" in out


def test_options_say_what_the_log_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    """With learning rate and batch size the cause is computed; a wider clip range makes the same KL a small one."""
    (finding,) = judged(capsys, "sick.csv", "--learning-rate", "3e-4", "--batch-size", "64")["findings"]
    assert finding["cause"].startswith("320 gradient steps x 0.0003 per update is 24 x the reference")
    assert judged(capsys, "sick.csv", "--clip-range", "0.4")["findings"] == []


def test_json_lines_of_steps_and_returns_are_judged_like_such_a_csv(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Its keys are known by the names that people give them, as the columns of a CSV are."""
    returns = [min(8.0 * k, 480.0) if k < 60 else max(500.0 - 8.0 * (k - 60), 10.0) for k in range(200)]
    lines = [{"global_step": 1000 * k, "episodic_return": value} for k, value in enumerate(returns)]
    (tmp_path / "log.jsonl").write_text("".join(f"{json.dumps(it)}\n" for it in lines))
    (tmp_path / "log.csv").write_text(
        "global_step,episodic_return\n" + "".join(f"{1000 * k},{value}\n" for k, value in enumerate(returns))
    )
    of_json, of_csv = (judged(capsys, f"log.{kind}") for kind in ("jsonl", "csv"))
    assert [it["rule"] for it in of_json["findings"]] == ["drawdown"]
    assert of_json["findings"] == of_csv["findings"]


def test_columns_of_one_name_are_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Only one of them can be judged, and whoever reads the verdict has to know which."""
    (tmp_path / "twice.csv").write_text("timesteps,reward,reward\n" + "".join(f"{9 * k},{k},1\n" for k in range(1, 9)))
    assert main(["judge", "twice.csv"]) == 0
    assert capsys.readouterr().err == (
        "mission-tui: twice.csv: twice.csv line 1: several columns are called 'reward', of which the last counts\n"
    )


def test_a_column_is_truer_than_an_option(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What the log says of each update is not contradicted by what an option says of all of them."""
    rows = (f"{k},{k * 2048},0.09,0.05,0.2" for k in range(1, 21))
    header = "time/iterations,time/total_timesteps,train/approx_kl,train/learning_rate,train/clip_range"
    (tmp_path / "told.csv").write_text("\n".join((header, *rows)))
    assert main(["judge", "told.csv", "--learning-rate", "1e-4", "--clip-range", "0.9"]) == 0
    assert "learning rate 0.05, clip range 0.2;" in capsys.readouterr().out


def test_a_preset_says_the_settings(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`--preset` and `--spec` bring settings and limits; one whose rollout is another is not this log's."""
    (tmp_path / "mine.toml").write_text(
        '[env]\nid = "CartPole-v1"\nn_envs = 8\n[ppo]\nn_steps = 256\nn_epochs = 4\n[run]\ntotal_timesteps = 100000\n'
        "[keep.health.kl-persistent]\ncritical = 9.0\nwarning = 4.6\n"
    )
    assert judged(capsys, "sick.csv", "--preset", "./mine.toml")["findings"] == []
    write_spec(tmp_path / "spec.toml", SPEC)
    said = refused(capsys, "sick.csv", "--spec", "spec.toml")
    assert "sick.csv: has 2,048 steps per update, but 'demo' has 1,024" in said
    assert "not both" in refused(capsys, "sick.csv", "--spec", "spec.toml", "--preset", "mine.toml")


def test_limits_are_the_users_then_those_of_the_file_given(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The user's health.toml counts, and `--health` lies over it; a rule that is off says nothing."""
    own = tmp_path / "config" / "mission-tui" / "health.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[kl-persistent]\nact = "off"\n')
    assert judged(capsys, "sick.csv")["findings"] == []
    (tmp_path / "strict.toml").write_text('[kl-persistent]\nact = "notify"\nwarning = 1.8\n')
    (finding,) = judged(capsys, "sick.csv", "--health", "strict.toml")["findings"]
    assert "more than 1.8 x the safe KL" in finding["sentence"]
    own.write_text("[kl-persistant]\n")
    assert "did you mean 'kl-persistent'" in refused(capsys, "sick.csv", code=78)


def run_of_ours(folder: Path) -> Path:
    """A run directory of two attempts, each with a persistent KL, of which the second stands until the last row."""
    folder.mkdir()
    write_spec(folder / "spec.toml", SPEC)
    rows = [
        update(number, number, attempt, approx_kl=0.09, clip_range=0.2)
        for attempt in (1, 2)
        for number in range(10 * attempt - 9, 10 * attempt + 1)
    ]
    (folder / "metrics.jsonl").write_bytes(b"".join(map(encode_line, rows)))
    return folder


def test_a_run_directory_is_judged_as_it_was_while_it_lived(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Attempt by attempt, by the spec's own settings; saying them again is refused, limits to judge by are not."""
    run = run_of_ours(tmp_path / "run")
    findings = judged(capsys, str(run))["findings"]
    assert [(it["id"], it["state"]) for it in findings] == [
        ("kl-persistent-1-5", "cleared"),
        ("kl-persistent-2-15", "open"),
    ]
    assert findings[0]["cause"].startswith("16 gradient steps x 0.0003 per update")
    assert "is a run of mission-tui with its own settings" in refused(capsys, str(run), "--clip-range", "0.1")
    (tmp_path / "loose.toml").write_text("[kl-persistent]\nwarning = 4.6\ncritical = 5.0\n")
    assert judged(capsys, str(run), "--health", "loose.toml")["findings"] == []


@pytest.mark.parametrize(
    ("tags", "algorithm", "words"),
    [
        ({"train/loss": 1.0}, "unknown", "of no algorithm known here (train/loss): judged by hang, nan, "),
        (
            {"train/actor_loss": 1.0, "train/ent_coef": 0.1},
            "SAC",
            "a log of SAC or its kin (TQC, CrossQ) and not of PPO",
        ),
        ({"train/approx_kl": 0.01}, "PPO", "clip range 0.2"),
    ],
)
def test_whose_a_run_of_ones_own_program_is_only_its_rows_tell(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, tags: dict[str, float], algorithm: str, words: str
) -> None:
    """It is judged by the same rules as a log of it would be, and that is said."""
    folder = tmp_path / "run"
    folder.mkdir()
    run = structs.replace(SPEC.run, command=("python", "train.py"))
    write_spec(folder / "spec.toml", structs.replace(SPEC, run=run))
    rows = [structs.replace(update(n, n, 1), metrics=tags) for n in range(1, 20)]
    (folder / "metrics.jsonl").write_bytes(b"".join(map(encode_line, rows)))
    assert judged(capsys, str(folder))["algorithm"] == algorithm
    assert main(["judge", str(folder)]) == 0
    assert words in capsys.readouterr().out


def test_lines_that_could_not_be_used_are_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Damage goes to stderr, and what is whole is judged."""
    run = run_of_ours(tmp_path / "run")
    lines = (run / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (run / "metrics.jsonl").write_bytes(b"".join([lines[0], b"\0" * 40 + b"\n", *lines[2:]]))
    assert main(["judge", str(run)]) == 0
    said = capsys.readouterr()
    assert "it was skipped" in said.err
    assert "19 updates" in said.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere.csv",), "nowhere.csv: cannot be read: No such file"),
        (
            ("monitor.csv",),
            "monitor.csv: is not a training log; known are run directories, metrics.jsonl, SB3's",
        ),
        (("config",), "config: holds no training log"),
        (("sick.csv", "--batch-size", "0"), "--batch-size"),
        (("sick.csv", "--learning-rate", "nan"), "--learning-rate': nan is not a finite number"),
        (("sick.csv", "--reward-threshold", "inf"), "--reward-threshold': inf is not a finite number"),
        (("package.json",), "package.json: is not a training log; known are"),
        (("odd",), "odd/0.monitor.csv: does not begin as a monitor does"),
        (("pipe.csv",), "pipe.csv: is neither a file nor a folder"),
        ((), "FILE..."),
    ],
)
def test_a_mistake_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    """A file that is no log is named with what would be one; nobody waits for what a pipe may bring."""
    (tmp_path / "package.json").write_text('{"name": "x"}\n')
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "0.monitor.csv").write_text("reward,length,time\n1.0,9,0.5\n")
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "monitor.csv").write_text("r,l,s\n1,2,3\n")
    (tmp_path / "config").mkdir()
    assert said in refused(capsys, *words)


def test_it_starts_nothing(shell: Shell) -> None:
    """From a process of its own too, a log is judged without supervisor, runs root or sockets."""
    (shell.cwd / "progress.csv").write_text(SICK)
    assert len(shell.json("judge", "progress.csv")["findings"]) == 1
    assert not shell.root.exists()
    assert shell.processes() == []


def write_events(folder: Path, points: list[tuple[str, float, int]], text: str = "") -> None:
    """An event file with scalars (tag, value, step), one second a step, and CleanRL's table of hyperparameters."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(folder))
    if text:
        value = Summary.Value(tag="hyperparameters/text_summary", tensor=TensorProto(string_val=[text.encode()]))
        writer.add_event(Event(wall_time=1e9, step=0, summary=Summary(value=[value])))
    for tag, number, step in points:
        scalar = Summary(value=[Summary.Value(tag=tag, simple_value=number)])
        writer.add_event(Event(wall_time=1e9 + step / 100, step=step, summary=scalar))
    writer.close()


@needs_tensorboard
def test_event_files_of_sb3(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """SB3's tags are taken as they are, a row per step, and the wall clock gives the speed."""
    tags = (("train/approx_kl", 0.09), ("train/learning_rate", 3e-4), ("rollout/ep_rew_mean", 1.0))
    write_events(tmp_path / "tb", [(tag, value, 512 * k) for k in range(1, 11) for tag, value in tags])
    document = judged(capsys, str(tmp_path / "tb"))
    assert (document["updates"], document["findings"][0]["rule"]) == (10, "kl-persistent")
    log = event_files.read_events(tmp_path / "tb", event_files.event_files(tmp_path / "tb"))
    assert (log.settings.rollout, log.settings.learning_rate) == (512, 3e-4)
    assert [getattr(record, "steps_per_s", 0.0) for record in log.records[1:]] == pytest.approx([100.0] * 9)


@needs_tensorboard
def test_an_event_file_that_breaks_off_says_what_was_not_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """An event in the middle is damaged, or says that it is longer than all memory: that what comes after it was not
    judged is said; of a whole file nothing.
    """
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    write_events(tmp_path / "tb", [("train/approx_kl", 0.01, 512 * k) for k in range(1, 41)])
    assert main(["judge", "tb"]) == 0
    assert capsys.readouterr().err == ""
    (file,) = (tmp_path / "tb").iterdir()
    written = bytearray(file.read_bytes())
    written[len(written) // 2] ^= 255
    file.write_bytes(written)
    assert main(["judge", "tb"]) == 0
    printed = capsys.readouterr()
    assert f"tb: {file.name}: its last" in printed.err
    assert "bytes were not read: an event there is damaged or cut short" in printed.err
    written[len(written) // 2] ^= 255
    length = (1 << 62).to_bytes(8, "little")
    file.write_bytes(written + length + masked_crc32c(length).to_bytes(4, "little") + bytes(99))
    assert main(["judge", "tb"]) == 0
    assert "its last 111 bytes were not read" in capsys.readouterr().err


@needs_tensorboard
def test_two_trainings_of_cleanrl_in_one_folder(tmp_path: Path) -> None:
    """As where it was started again with the same name: each has its own clip range, and its own mean return."""
    for clip, score in ((0.1, 500.0), (0.3, 20.0)):
        points = [("charts/episodic_return", score, 50), ("losses/approx_kl", 0.02, 100)]
        write_events(tmp_path / "tb", points, f"|param|value|\n|-|-|\n|clip_coef|{clip}|")
    rows = event_files.read_events(tmp_path / "tb", event_files.event_files(tmp_path / "tb")).updates_done
    said = [(row.metrics["train/clip_range"], row.metrics["rollout/ep_rew_mean"]) for row in rows]
    assert said == [(0.1, 500.0), (0.3, 20.0)]


@needs_tensorboard
def test_event_files_of_cleanrl(tmp_path: Path) -> None:
    """Its losses are mapped, episodes become the mean over the last 100, its hyperparameters become the settings."""
    points = []
    for k in range(1, 4):
        points += [("charts/episodic_return", float(k), 100 * k - 50), ("charts/episodic_length", 9.0, 100 * k - 50)]
        points += [("losses/approx_kl", 0.02, 100 * k), ("losses/entropy", 0.5, 100 * k)]
    arguments = {"env_id": "CartPole-v1", "clip_coef": 0.1, "batch_size": 100, "minibatch_size": 25}
    lines = "\n".join(
        f"|{name}|{value}|" for name, value in (arguments | {"update_epochs": 4, "target_kl": None}).items()
    )
    write_events(tmp_path, points, f"|param|value|\n|-|-|\n{lines}")
    log = event_files.read_events(tmp_path, event_files.event_files(tmp_path))
    settings = log.settings
    assert (settings.env_id, settings.clip_range, settings.rollout) == ("CartPole-v1", 0.1, 100)
    assert (settings.batch_size, settings.n_epochs, settings.target_kl) == (25, 4, None)
    last = log.records[-1]
    assert getattr(last, "metrics", {}) == {
        "train/approx_kl": 0.02,
        "train/entropy_loss": -0.5,
        "train/clip_range": 0.1,
        "rollout/ep_rew_mean": 2.0,
        "rollout/ep_len_mean": 9.0,
    }


@needs_tensorboard
def test_the_returns_of_another_algorithm_of_cleanrl_are_judged(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Its DQN, SAC and TD3 have losses of their own names; their batch size is no rollout."""
    points = [(tag, float(k), 100 * k) for k in range(1, 9) for tag in ("charts/episodic_return", "losses/td_loss")]
    write_events(tmp_path / "dqn", points, "|param|value|\n|-|-|\n|env_id|CartPole-v1|\n|batch_size|128|")
    log = event_files.read_events(tmp_path / "dqn", event_files.event_files(tmp_path / "dqn"))
    assert [row.metrics for row in log.updates_done] == [
        {"rollout/ep_rew_mean": sum(range(1, k + 1)) / k} for k in range(1, 9)
    ]
    assert (log.settings.env_id, log.settings.rollout) == ("CartPole-v1", 100)
    with pytest.raises(LogError, match="it can be judged, and not imported"):
        event_files.read_events(tmp_path / "dqn", event_files.event_files(tmp_path / "dqn"), to_import=True)
    assert main(["judge", "dqn"]) == 0
    assert "returns alone, of any algorithm" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        ("train/loss,train/accuracy", "of no algorithm known here (train/accuracy, train/loss): judged by hang, nan, "),
        ("eval/episode_reward,train/a", "of no algorithm known here (train/a): judged by hang, nan, "),
    ],
)
def test_a_log_that_no_algorithm_known_here_wrote_is_not_judged_as_ppo(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, tags: str, said: str
) -> None:
    """Any trainer of nets writes train/loss: it has no clip range, and that it has no return is said."""
    (tmp_path / "nets.csv").write_text(f"{tags}\n" + "".join(f"{1 / k},0.5\n" for k in range(1, 30)))
    assert main(["judge", "nets.csv"]) == 0
    out = capsys.readouterr().out
    assert said in out
    assert "; no row has time/total_timesteps; no row has rollout/ep_rew_mean: most rules need it" in out
    assert "clip range" not in out


@needs_tensorboard
def test_numbers_that_no_setting_has_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Endless hyperparameters, and tensors of a type without numbers, cost nobody else's log its verdict."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.summary.writer.record_writer import RecordWriter

    points = [("losses/approx_kl", 0.01, step) for step in (2048, 4096, 6144)]
    write_events(tmp_path / "odd", points, text="|total_timesteps|inf|\n|batch_size|nan|\n|gamma|1e999|")
    (file,) = (tmp_path / "odd").iterdir()
    quantized = Summary.Value(tag="train/loss", tensor=TensorProto(dtype=20))
    with file.open("ab") as stream:
        RecordWriter(stream).write(Event(step=6144, summary=Summary(value=[quantized])).SerializeToString())
    assert main(["judge", "odd", "calm.csv"]) == 0
    assert "odd" in capsys.readouterr().out


def test_a_folder_whose_log_lies_deeper_is_pointed_to(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`tensorboard_log="tb"` writes `tb/PPO_1`: the refusal names it, and `-r` for several."""
    for name in ("out/tb/PPO_1", "out/tb/PPO_2"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "out/tb/PPO_1/events.out.tfevents.1").write_bytes(b"")
    assert "out: holds no training log itself; judge out/tb/PPO_1" in refused(capsys, "out")
    (tmp_path / "out/tb/PPO_2/events.out.tfevents.1").write_bytes(b"")
    assert "judge out/tb/PPO_1, or -r all 2 below it" in refused(capsys, "out")
    (tmp_path / "named").mkdir()
    (tmp_path / "named/seed1.monitor.csv").write_text('#{"t_start": 1.0}\nr,l,t\n1,2,3\n')
    assert "named: holds no training log itself; judge named/seed1.monitor.csv" in refused(capsys, "named")


@needs_tensorboard
def test_event_files_of_something_else_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A classifier's event file, and one that is no event file at all, are named."""
    write_events(tmp_path / "other", [("accuracy", 0.5, 1)])
    assert "has none of the tags of SB3 (train/approx_kl, rollout/ep_rew_mean) or CleanRL" in refused(capsys, "other")
    (tmp_path / "events.out.tfevents.1").write_bytes(b"hello, world, this is no record")
    assert "has none of the tags" in refused(capsys, "events.out.tfevents.1")


def test_without_the_extra_an_event_file_says_which(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence names the file and what to install."""
    (tmp_path / "events.out.tfevents.1").write_bytes(b"\x18\0\0\0")
    monkeypatch.setitem(sys.modules, "tensorboard.backend.event_processing.event_file_loader", None)
    assert "pip install -c constraints.txt -e '.[tensorboard]'" in refused(capsys, "events.out.tfevents.1")


def test_several_logs_get_a_line_each_and_the_others_are_judged_too(capsys: pytest.CaptureFixture[str]) -> None:
    """The worst of it, its size and the rules that spoke; what is no log is said; the code is 2, as for it alone."""
    assert main(["judge", "sick.csv", "nowhere.csv", "calm.csv"]) == 2
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "worst       rows by      log: rules",
        "warning       20 PPO     sick.csv: kl-persistent",
        "-             20 PPO     calm.csv: no findings",
        "2 logs: 1 warning, 1 without findings; 1 file could not be judged, as said above",
    ]
    assert said.err == "mission-tui: nowhere.csv: cannot be read: No such file or directory\n"


def test_a_folder_is_judged_with_all_below_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A run of ours, a table, the monitors of its workers and a plain CSV of returns are a log each, whatever is odd
    beside them; nobody named the odd ones, so the code is 0.
    """
    top = tmp_path / "weeks"
    top.mkdir()
    run_of_ours(top / "ours").joinpath("events.jsonl").touch()
    for folder in ("sb3", "workers", "plain", "odd"):
        (top / folder).mkdir()
    (top / "sb3" / "progress.csv").write_text(CALM)
    (top / "sb3" / "progress.json").write_text("{}\n")
    (top / "sb3" / "0.monitor.csv").write_text('#{"t_start": 1e9}\nr,l,t\n1.0,10,1.0\n')
    for worker in range(2):
        rows = "".join(f"{n},10,{n + worker / 2}\n" for n in range(1, 41))
        (top / "workers" / f"{worker}.monitor.csv").write_text('#{"t_start": 1e9}\nr,l,t\n' + rows)
    (top / "plain" / "log.csv").write_text(
        "episode,timestep,reward\n" + "".join(f"{n},{n * 9},{n}\n" for n in range(1, 9))
    )
    (top / "odd" / "labels.csv").write_text("trace,label\na,b\n")
    (top / "odd" / "evaluations.npz").write_bytes(b"PK")
    (top / "odd" / "model.zip").write_bytes(b"PK")
    (top / "odd" / "empty.csv").touch()
    (top / "odd" / "loop").symlink_to(top)
    os.mkfifo(top / "odd" / "pipe.csv")
    (top / ".trash").mkdir()
    run_of_ours(top / ".trash" / "removed")
    document = judged(capsys, "-r", "weeks")
    found = {str(Path(it["file"]).relative_to("weeks")): (it["updates"], it["algorithm"]) for it in document["files"]}
    assert found == {
        "ours": (20, "PPO"),
        "plain/log.csv": (8, "unknown"),
        "sb3/progress.csv": (20, "PPO"),
        "workers": (80, "unknown"),
    }
    assert [Path(it["file"]).name for it in document["unread"]] == ["empty.csv", "evaluations.npz", "labels.csv"]
    assert main(["judge", "-r", str(top / "odd")]) == 2
    assert "0 logs; 3 files could not be judged" in capsys.readouterr().out


def test_a_log_without_returns_says_how_little_its_findings_mean(capsys: pytest.CaptureFixture[str]) -> None:
    """As where no episode ends: that nothing was found is no praise then."""
    assert main(["judge", "calm.csv"]) == 0
    assert "; no row has rollout/ep_rew_mean, because no episode ended" in capsys.readouterr().out
    Path("paid.csv").write_text(
        HEAD.replace("train/n_updates", "rollout/ep_rew_mean") + "1,2048,0.01,5\n2,4096,0.01,6\n"
    )
    assert main(["judge", "paid.csv"]) == 0
    assert "no row has" not in capsys.readouterr().out


def test_a_rate_that_jumps_is_known_by_its_ends(capsys: pytest.CaptureFixture[str]) -> None:
    """It is no schedule, and it stands in the log all the same; one of 0 is a number as well."""
    for name, rates, said in (("jump.csv", (1e-3, 0.03), "0.001 at first and 0.03 at last"), ("0.csv", (0, 0), "0.0")):
        rows = "".join(f"{k},{k * 2048},0.01,{rates[k > 5]}\n" for k in range(1, 11))
        Path(name).write_text(HEAD.replace("train/n_updates", "train/learning_rate") + rows)
        assert main(["judge", name]) == 0
        assert f"learning rate {said}, clip range" in capsys.readouterr().out


def test_two_trainings_in_one_file_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The one line on its settings says where steps go back; a training that only called `learn` again has none."""
    (tmp_path / "both.csv").write_text(SICK + CALM)
    assert main(["judge", "both.csv"]) == 0
    assert "steps go back at update 21, as where another training begins" in capsys.readouterr().out
    again = SICK + "".join(f"{k},{(20 + k) * 2048},0.09,{(20 + k) * 10}\n" for k in range(1, 21))
    (tmp_path / "again.csv").write_text(again)
    assert main(["judge", "again.csv"]) == 0
    said = capsys.readouterr().out
    assert "again.csv: 40 updates, 1 finding\n" in said
    assert "go back" not in said


def test_a_terminal_gets_lines_of_its_width(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No word is cut in two where a finding is longer than a line; a pipe has the same words, one line each."""
    assert main(["judge", "sick.csv"]) == 0
    piped = capsys.readouterr().out
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 80))
    with os.fdopen(slave, "w") as terminal:
        monkeypatch.setattr("sys.stdout", terminal)
        assert main(["judge", "sick.csv"]) == 0
    shown = click.unstyle(drawn(master))
    assert max(map(len, piped.splitlines())) > 80 >= max(map(len, shown.splitlines()))
    assert "    cause: " in shown
    assert shown.split() == piped.split()


def test_an_empty_folder_is_no_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence names it, instead of a sum of nothing alone."""
    (tmp_path / "runs" / "old").mkdir(parents=True)
    (tmp_path / "runs" / "train.py").write_text("pass\n")
    assert main(["judge", "-r", str(tmp_path / "runs")]) == 2
    said = capsys.readouterr()
    assert f"{tmp_path / 'runs'}: holds no log of a training" in said.err


@pytest.mark.skipif(not TRACES.is_dir(), reason=f"the outside traces are not at {TRACES}")
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_all_outside_data_is_judged_in_one_call(capsys: pytest.CaptureFixture[str]) -> None:
    """Each log has its line, each table that is none and each array of evaluations has its reason."""
    assert main(["judge", "-r", str(TRACES.parent)]) == 0
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 99
    assert said.out.splitlines()[-1].startswith("97 logs: ")
    assert len(said.err.splitlines()) == 18


@pytest.mark.skipif(not TRACES.is_dir(), reason=f"the outside traces are not at {TRACES}")
@pytest.mark.parametrize(
    ("which", "every"),
    [("[bgj]*.csv", 1), pytest.param("pfb*.csv", 6, marks=[pytest.mark.slow, pytest.mark.timeout(120)])],
)
def test_outside_traces_are_judged(capsys: pytest.CaptureFixture[str], which: str, every: int) -> None:
    """Many logs in one call: a document each, in order, with nothing to complain of. The text of all is read above."""
    paths = sorted(map(str, TRACES.glob(which)))[::every]
    assert main(["judge", *paths, "--json"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    documents = json.loads(said.out)["files"]
    assert [it["file"] for it in documents] == paths
    assert all(it["updates"] > 20 for it in documents)


def test_of_thousands_of_findings_the_first_of_each_rule_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line says what the others are and how to see them; `--full` and the document have all."""
    rows = "".join(f"{k},{k * 2048},{0.09 if k // 20 % 2 else 0.01},{k * 10}\n" for k in range(1, 201))
    (tmp_path / "often.csv").write_text(HEAD + rows)
    found = judged(capsys, "often.csv")["findings"]
    rules = Counter(it["rule"] for it in found)
    assert rules["kl-persistent"] > 2
    monkeypatch.setattr(judge, "SHOWN", 2 + len(rules))
    assert main(["judge", "often.csv"]) == 0
    out = capsys.readouterr().out
    assert out.count("    cause: ") == 2 + len(rules)
    assert all(f" {rule}, updates " in out for rule in rules)
    assert f"  {len(found) - 2 - len(rules)} more findings: kl-persistent " in out
    assert out.endswith("; --full prints all, and --json has them\n\n")
    assert main(["judge", "often.csv", "--full"]) == 0
    out = capsys.readouterr().out
    assert out.count("    cause: ") == len(found)
    assert "more findings" not in out


def test_a_terminal_is_shown_how_far_judging_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """On one line of stderr, which is empty again when the findings are printed; a file or a pipe gets none of it."""
    monkeypatch.setattr(terminal_output, "PATIENCE_S", 0.0)
    monkeypatch.setattr(terminal_output, "ROWS_A_LOOK", 5)
    monkeypatch.setattr(terminal_output, "PACE_S", 0.0)
    for tty in (False, True):
        stream = StringIO()
        monkeypatch.setattr(stream, "isatty", lambda tty=tty: tty)
        monkeypatch.setattr(sys, "stderr", stream)
        assert main(["judge", "sick.csv"]) == 0
        said = stream.getvalue().split("\r\x1b[K")
        assert said == (
            ["", *(f"judging sick.csv: {k} of 20 rows, {5 * k}%" for k in (0, 5, 10, 15)), ""] if tty else [""]
        )
