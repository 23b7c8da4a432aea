"""Training logs that others wrote: their quirks, what they betray of the settings, and files that are no logs."""

from __future__ import annotations

import csv
import gzip
import json
import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mission_tui.fleet.events.metrics import TrainingStarted, UpdateDone
from mission_tui.fleet.specs.preset import as_tables
from mission_tui.fleet.specs.spec import Schedule
from mission_tui.records.jsonl import encode_line
from mission_tui.records.logs.log import LogError, TableRow, TrainingLog, log_of_rows
from mission_tui.records.logs.monitors import pace_of, read_monitors
from mission_tui.records.logs.read import read_any, read_log
from mission_tui.records.runs.attempt import write_spec
from tests.fleet.recorded import SPEC, stopped_and_resumed, update

TRACES = Path(__file__).resolve().parents[3] / "shared" / "data" / "traces"
HEAD = "time/iterations,time/total_timesteps,time/time_elapsed,rollout/ep_rew_mean,train/approx_kl,train/n_updates\n"

LATER = {"train/loss": 0.1, "rollout/ep_rew_mean": 1.0}

outside = pytest.mark.skipif(not TRACES.is_dir(), reason=f"the outside traces are not at {TRACES}")


def log_of(folder: Path, text: str, name: str = "progress.csv") -> TrainingLog:
    """The log of a file with this text."""
    (folder / name).write_text(text, encoding="utf-8")
    return read_log(folder / name)


def updates(log: TrainingLog) -> list[UpdateDone]:
    """Its updates alone."""
    return [record for record in log.records if isinstance(record, UpdateDone)]


@outside
@pytest.mark.parametrize("path", sorted(TRACES.glob("*.csv")), ids=lambda path: path.stem)
def test_every_outside_trace_is_read_row_by_row(path: Path) -> None:
    """Each log gives its iterations in order, its last steps as total, and every number that was written."""
    log = read_log(path)
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    read = updates(log)
    assert log.damage == ()
    assert [row.update for row in read] == list(range(read[0].update, read[0].update + len(read)))
    assert log.settings.total_timesteps == read[-1].timesteps == int(float(rows[-1]["time/total_timesteps"]))
    assert log.settings.rollout == read[1].timesteps - read[0].timesteps
    written = sum(bool(cell) for row in rows for tag, cell in row.items() if tag.startswith("train/"))
    assert sum(tag.startswith("train/") for row in read for tag in row.metrics) == written


@outside
def test_an_evaluation_does_not_split_an_update() -> None:
    """With EvalCallback `train/*` stands in the evaluation's row: it joins the rollout's row, and no number is lost."""
    log = read_log(TRACES / "biosearch_ppo.csv")
    read = updates(log)
    assert len(read) == 48
    fifth = next(row for row in read if row.update == 5)
    assert fifth.timesteps == 10_240
    assert fifth.metrics["rollout/ep_rew_mean"] == pytest.approx(6.025757944444446)
    assert fifth.metrics["train/approx_kl"] == pytest.approx(0.0036103078)
    assert fifth.metrics["eval/mean_reward"] == pytest.approx(-1.8383143)
    assert (log.settings.n_epochs, log.settings.rollout) == (10, 2048)


def test_blank_is_absent_and_nan_is_said(tmp_path: Path) -> None:
    """An empty cell is no number at all; the word nan is one, and travels by its name."""
    log = log_of(tmp_path, f"{HEAD}1,2048,1,5.0,,\n2,4096,2,nan,0.01,10\n")
    first, second = updates(log)
    assert first.metrics == {"rollout/ep_rew_mean": 5.0}
    assert second.metrics["rollout/ep_rew_mean"] == "nan"


def test_an_evaluation_after_the_last_rollout_is_an_update_only_with_train(tmp_path: Path) -> None:
    """A log that ends with an evaluation keeps what it says of the last update; one without adds no row."""
    head = "time/iterations,time/total_timesteps,train/approx_kl,eval/mean_reward\n"
    assert len(updates(log_of(tmp_path, f"{head}1,10,0.1,\n,15,0.2,7\n"))) == 2
    assert len(updates(log_of(tmp_path, f"{head}1,10,0.1,\n,15,,7\n"))) == 1


def test_logs_without_iterations_are_counted_row_by_row(tmp_path: Path) -> None:
    """Event files have no counter: rows are updates, and rows of evaluations alone join the next."""
    head = "time/total_timesteps,rollout/ep_rew_mean,train/approx_kl,eval/mean_reward\n"
    log = log_of(tmp_path, f"{head}100,1,,\n200,2,0.1,\n250,,0.2,9\n300,3,,\n")
    assert [(row.update, row.timesteps) for row in updates(log)] == [(1, 100), (2, 200), (3, 300)]
    assert updates(log)[2].metrics["train/approx_kl"] == 0.2


@pytest.mark.parametrize(("first", "interval"), [({}, 1), (LATER, None)])
def test_how_many_updates_a_row_of_an_event_file_tells_of(first: dict[str, float], interval: int | None) -> None:
    """The row of the first rollout has no update yet; where no episode ended in it, it has nothing but its speed."""
    rows = [
        TableRow({"time/total_timesteps": 512.0 * k, "time/fps": 900.0} | (first if k == 1 else LATER), float(k))
        for k in range(1, 5)
    ]
    log = log_of_rows(Path("tb"), rows, [])
    assert log.log_interval == interval
    assert [row.update for row in updates(log)][-1] == 4


def test_a_log_that_was_appended_to_is_a_new_attempt(tmp_path: Path) -> None:
    """Steps that begin anew, under their own header, count on as another attempt; repeated rows count once."""
    again = "time/iterations,time/total_timesteps,train/approx_kl\n"
    log = log_of(tmp_path, f"{HEAD}1,10,1,5,,\n2,20,2,5,0.1,4\n2,20,2,5,0.1,4\n{again}1,10,0.3\n2,20,0.4\n")
    assert [(row.attempt, row.update, row.timesteps) for row in updates(log)] == [
        (1, 1, 10),
        (1, 2, 20),
        (2, 3, 10),
        (2, 4, 20),
    ]
    assert updates(log)[2].metrics == {"train/approx_kl": 0.3}


@pytest.mark.parametrize("rows_a_call", [1, 2])
def test_learn_that_is_called_again_and_again_is_one_attempt(tmp_path: Path, rows_a_call: int) -> None:
    """SB3 counts iterations anew with each call, and with `reset_num_timesteps=False` steps on: one training."""
    rows = "".join(f"{k % rows_a_call + 1},{(k + 1) * 10},1,5,0.1,{k}\n" for k in range(6))
    assert [(row.attempt, row.update, row.timesteps) for row in updates(log_of(tmp_path, HEAD + rows))] == [
        (1, k, k * 10) for k in range(1, 7)
    ]


def test_a_torn_last_line_gives_what_is_whole_of_it(tmp_path: Path) -> None:
    """The last cell of a line that was cut short may be half a number, and does not count."""
    log = log_of(tmp_path, f"{HEAD}1,2048,1,5.0,0.01,10\n2,4096,2,6.25,0.0")
    assert updates(log)[-1].metrics == {"rollout/ep_rew_mean": 6.25}


@pytest.mark.parametrize("written", ["\ufeff{}", "{}", '"{}"'], ids=["mark", "plain", "quoted"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_table_that_a_spreadsheet_saved_says_the_same(tmp_path: Path, written: str, delimiter: str) -> None:
    """A mark of UTF-8 before the first column, quotes, and semicolons with commas for points, or tabs."""
    table = [["rollout/ep_rew_mean", "time/total_timesteps"], ["5.5", "2048"], ["6.25", "4096"]]
    point = "," if delimiter == ";" else "."
    text = "".join(delimiter.join(cells).replace(".", point) + "\n" for cells in table)
    if written.startswith('"'):
        text = text.replace(delimiter, f'"{delimiter}"').replace("\n", '"\n').replace('\n"', "\n")
        text = "".join(f'"{line}\n' for line in text.splitlines())
    log = log_of(tmp_path, text if written.startswith('"') else written.format(text))
    assert [(row.timesteps, row.metrics) for row in updates(log)] == [
        (2048, {"rollout/ep_rew_mean": 5.5}),
        (4096, {"rollout/ep_rew_mean": 6.25}),
    ]
    assert log.damage == ()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("progress.csv", "episode_reward_mean,timesteps_total,training_iteration\n5.5,4000,1\n6.5,8000,2\n"),
        (
            "result.json",
            "".join(
                f'{{"env_runners": {{"episode_return_mean": {r}}}, "num_env_steps_sampled_lifetime": {steps}}}\n'
                for r, steps in ((5.5, 4000), (6.5, 8000))
            ),
        ),
        ("progress.txt", "Epoch\tAverageEpRet\tEpLen\tTotalEnvInteracts\n1\t5.5\t9\t4000\n2\t6.5\t9\t8000\n"),
        ("progress.csv", "Evaluation/AverageReturn,TotalEnvSteps\n5.5,4000\n6.5,8000\n"),
    ],
    ids=["rllib", "rllib-json", "spinning-up", "garage"],
)
def test_returns_in_the_tables_of_other_frameworks(tmp_path: Path, name: str, text: str) -> None:
    """RLlib, Spinning Up and garage have their own names for the steps since the start and the mean return."""
    log = log_of(tmp_path, text, name)
    assert [(row.timesteps, row.metrics) for row in updates(log)] == [
        (4000, {"rollout/ep_rew_mean": 5.5}),
        (8000, {"rollout/ep_rew_mean": 6.5}),
    ]
    assert name == "result.json" or read_any(tmp_path).updates == 2


def test_lengths_of_episodes_are_not_taken_for_the_steps_since_the_start(tmp_path: Path) -> None:
    """A table of episodes often calls their length `steps`: each shorter one would be taken for a new training."""
    rows = "".join(f"{k},{k}.0,{20 + 7 * k % 13}\n" for k in range(40))
    with pytest.raises(LogError, match=r"go back in \d+ of 40 rows, as where they are the length of each episode"):
        log_of(tmp_path, f"episode,reward,steps\n{rows}")
    twice = "".join(f"{k},{k}.0\n" for k in range(10)) * 2
    assert log_of(tmp_path, f"timestep,reward\n{twice}").updates == 20


def test_a_monitor_that_was_appended_to_keeps_the_order_of_its_episodes(tmp_path: Path) -> None:
    """SB3 counts seconds anew when it appends, without a line that says so, nor any header where it began like that."""
    episodes = "".join(f"{r},10,{t}.0\n" for r, t in ((1, 5), (2, 10), (3, 4), (4, 9)))
    path = tmp_path / "monitor.csv"
    path.write_text(f'\ufeff#{{"t_start": 1000.0}}\nr,l,t\n{episodes}', encoding="utf-8")
    assert [(it.r, it.t, it.steps) for it in read_monitors([path])] == [
        (1.0, 1005.0, 10),
        (2.0, 1010.0, 20),
        (3.0, 1010.0, 30),
        (4.0, 1015.0, 40),
    ]
    assert pace_of(read_monitors([path])) == 40 / 15
    path.write_text(episodes)
    assert [(it.r, it.steps) for it in read_monitors([path])] == [(1.0, 10), (2.0, 20), (3.0, 30), (4.0, 40)]
    assert read_any(path).updates == 4
    workers = "".join(f'#{{"t_start": {start}}}\nr,l,t\n{r},10,1.0\n' for start, r in ((2000.0, 2), (1000.0, 1)))
    path.write_text(workers)
    assert [(it.r, it.t) for it in read_monitors([path])] == [(1.0, 1001.0), (2.0, 2001.0)]


def test_a_column_of_words_alone_is_said_to_count_for_nothing(tmp_path: Path) -> None:
    """As where a spreadsheet wrote commas for points; blanks and a word among numbers are none."""
    log = log_of(tmp_path, f'{HEAD}1,2048,1,"5,5",0.01,\n2,4096,2,"6,25",-,\n')
    assert log.damage == (
        "progress.csv: no number stands under rollout/ep_rew_mean, but '5,5': the column counts for nothing",
    )


def test_speed_is_known_only_where_the_clock_is_fine_enough(tmp_path: Path) -> None:
    """Whole seconds beside updates of two say nothing; hundredths do, and so does a wall clock."""
    rows = [f"{k},{k * 1000},{{}},1.0,0.01,{k}" for k in range(1, 5)]
    coarse = HEAD + "\n".join(row.format(2 * k) for k, row in enumerate(rows)) + "\n"
    fine = HEAD + "\n".join(row.format(f"{2 * k}.00") for k, row in enumerate(rows)) + "\n"
    assert [row.steps_per_s for row in updates(log_of(tmp_path, coarse))] == [0.0] * 4
    assert [row.steps_per_s for row in updates(log_of(tmp_path, fine))] == [0.0, 500.0, 500.0, 500.0]
    walled = "time/total_timesteps,train/approx_kl,wall_time\n1000,0.1,1733866516.0\n2000,0.1,1733866518.0\n"
    log = log_of(tmp_path, walled)
    assert [(row.t, row.steps_per_s) for row in updates(log)] == [(1733866516.0, 0.0), (1733866518.0, 500.0)]


def test_settings_come_from_the_columns(tmp_path: Path) -> None:
    """Clip range and learning rate as written (a line is a schedule), epochs from SB3's counter also between gaps."""
    head = "time/iterations,time/total_timesteps,train/learning_rate,train/clip_range,train/n_updates\n"
    rows = "".join(f"{k},{k * 512},{3e-4 * (1 - k / 100):.10g},0.1,{k * 4}\n" for k in (10, 20, 30, 50))
    found = log_of(tmp_path, head + rows).settings
    assert (found.clip_range, found.rollout, found.n_epochs, found.total_timesteps) == (0.1, 512, 4, 25_600)
    assert found.learning_rate == Schedule(start=2.7e-4, end=1.5e-4)
    adaptive = head + "1,512,3e-4,0.2,4\n2,1024,1e-4,0.2,8\n3,1536,9e-4,0.2,12\n"
    assert log_of(tmp_path, adaptive).settings.learning_rate is None
    stopped = head + "".join(f"{k},{k * 512},3e-4,0.2,{n}\n" for k, n in enumerate((1, 2, 3, 13, 14, 24), 1))
    assert log_of(tmp_path, stopped).settings.n_epochs == 10
    lost = "time/total_timesteps,train/n_updates\n" + "".join(f"{k},{k * 10}\n" for k in range(1, 20) if k != 7)
    assert log_of(tmp_path, lost).settings.n_epochs == 10


def test_progress_json_says_the_same_as_csv(tmp_path: Path) -> None:
    """SB3's JSON writer (one object a line, NaN as a bare word) gives the same records; a broken line is reported."""
    lines = [
        {"time/iterations": 1, "time/total_timesteps": 2048, "rollout/ep_rew_mean": 5.0},
        {
            "time/iterations": 2,
            "time/total_timesteps": 4096,
            "rollout/ep_rew_mean": float("nan"),
            "train/approx_kl": 0.1,
        },
    ]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    from_json = log_of(tmp_path, f"{text}{{half\n", "progress.json")
    from_csv = log_of(
        tmp_path,
        "time/iterations,time/total_timesteps,rollout/ep_rew_mean,train/approx_kl\n1,2048,5.0,\n2,4096,nan,0.1\n",
    )
    assert from_json.records == from_csv.records
    assert from_json.damage == ("progress.json line 3: not a JSON object; it was skipped",)


def test_a_run_directory_brings_specs_and_journal(tmp_path: Path) -> None:
    """Each attempt has its own spec; metrics.jsonl within it means the run, and away from it only its rows."""
    events, records = stopped_and_resumed()
    write_spec(tmp_path / "spec.toml", SPEC)
    (tmp_path / "metrics.jsonl").write_bytes(b"".join(map(encode_line, records)))
    (tmp_path / "events.jsonl").write_bytes(b"".join(map(encode_line, events)))
    run = read_log(tmp_path)
    assert run.specs == {1: SPEC, 2: SPEC}
    assert (list(run.records), list(run.events)) == (records, events)
    assert read_log(tmp_path / "metrics.jsonl") == run
    (tmp_path / "spec.toml").rename(tmp_path / "elsewhere.toml")
    alone = read_log(tmp_path / "metrics.jsonl")
    assert (alone.specs, alone.settings.rollout) == ({}, 1024)
    (tmp_path / "spec.toml").write_text("[")
    (tmp_path / "events.out.tfevents.1").write_bytes(b"")
    broken = read_any(tmp_path)
    assert (broken.updates, broken.settings, broken.log_interval) == (alone.updates, alone.settings, 1)
    assert "spec.toml: line 1: not valid TOML" in broken.damage[0]


def test_a_compressed_trace_begins_with_its_spec(tmp_path: Path) -> None:
    """Records without checksums after the specs by attempt; lines of other kinds are passed over."""
    import msgspec

    lines = [
        msgspec.json.encode({"kind": "spec", "attempt": 1, "spec": as_tables(SPEC)}),
        b'{"kind":"busy","spans":[]}',
        msgspec.json.encode(TrainingStarted(seq=1, attempt=1, t=1.0)),
        msgspec.json.encode(update(1, approx_kl=0.1)),
    ]
    path = tmp_path / "it.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n".join(lines) + b"\n"))
    log = read_log(path)
    assert (log.specs, log.updates, len(log.records)) == ({1: SPEC}, 1, 2)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(LogError, match="is not a recorded trace"):
        read_log(path)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("empty.csv", b"", "is empty"),
        ("head.csv", HEAD.encode(), "has no update yet"),
        ("monitor.csv", b"r,l,t\n1,2,3\n", "is not a training log; known are run directories"),
        ("notes.txt", b"dear diary\n", "is not a training log"),
        (
            "run-PPO_1-tag-rollout_ep_rew_mean.csv",
            b"Wall time,Step,Value\n1.5,2048,9.0\n",
            "is one chart of TensorBoard",
        ),
        ("image.png", b"\x89PNG\r\n\x1a\n\0\0", "is not a training log"),
        ("metrics.jsonl", b'{"kind":"update"}\n', "has no update yet"),
        ("run.jsonl.gz", b"\x1f\x8b\x08\x00", "is not a recorded trace"),
        (
            "run.tgz",
            gzip.compress(b'{"kind":"start","seq":1,"attempt":1,"t":1.0}\n', mtime=0),
            "is compressed, and no recorded trace; unpack it first, such as with tar xf",
        ),
        (
            "progress.csv.gz",
            gzip.compress(HEAD.encode(), mtime=0),
            "is compressed, and no recorded trace; decompress it first",
        ),
    ],
)
def test_what_is_no_log_is_refused_by_name(tmp_path: Path, name: str, data: bytes, said: str) -> None:
    """One sentence that begins with the file and says what is wrong with it."""
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(LogError) as caught:
        read_log(path)
    assert str(caught.value).startswith(f"{path}: {said}")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("progress.csv", HEAD + "1,2,3\n"),
        ("progress.json", '{"time/total_timesteps": 1, "train/approx_kl": 0.1}\n'),
        ("monitor.csv", '#{"t_start": 1.0}\nr,l,t\n1,2,3\n'),
        ("events.out.tfevents.1", ""),
    ],
)
def test_a_file_of_holes_is_refused_at_once(tmp_path: Path, name: str, head: str) -> None:
    """A log that goes on for a terabyte costs nobody anything to make, and nobody reads it."""
    (tmp_path / name).write_text(head, encoding="ascii")
    os.truncate(tmp_path / name, 1 << 40)
    # A monitor is known by its first lines, which are not looked at then.
    with pytest.raises(LogError, match=r"nearly all of them are holes|is not a training log"):
        read_any(tmp_path / name)


def test_a_line_that_no_log_has_is_not_held_in_memory(tmp_path: Path) -> None:
    """A compressed file of some kilobytes can be a line of gigabytes, or as many lines; a table can have one too."""
    path = tmp_path / "it.jsonl.gz"
    path.write_bytes(gzip.compress(b"1" * (2 << 20)))
    with pytest.raises(LogError, match="a line of more than 1 MiB"):
        read_any(path)
    path.write_bytes(gzip.compress(b"x" * (1 << 19) + b"\n") * 520)
    with pytest.raises(LogError, match="grows to more than 256 MiB"):
        read_any(path)
    for name, head in (("progress.csv", HEAD), ("progress.json", '{"a": 1}\n'), ("monitor.csv", "r,l,t\n")):
        (tmp_path / name).write_text(head + "1" * (2 << 20) + "\n", encoding="ascii")
        with pytest.raises(LogError, match="a line of more than 1 MiB"):
            read_any(tmp_path / name)


def test_absent_files_and_folders_without_a_log_are_refused(tmp_path: Path) -> None:
    """A path that is not there and a folder with nothing known in it each say so; a folder with a log stands for it."""
    with pytest.raises(LogError, match="No such file"):
        read_log(tmp_path / "nowhere.csv")
    with pytest.raises(LogError, match="holds no training log"):
        read_log(tmp_path)
    (tmp_path / "progress.csv").write_text(f"{HEAD}1,2048,1,5.0,,\n")
    assert read_log(tmp_path).updates == 1


@pytest.mark.slow
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=300), blob=st.binary(max_size=100))
def test_no_bytes_make_it_raise_anything_else(tmp_path: Path, text: str, blob: bytes) -> None:
    """Whatever a file holds, also after a good header, it is read or refused with a sentence."""
    path = tmp_path / "progress.csv"
    for data in (blob, HEAD.encode() + text.encode(errors="replace"), b'{"a": 1}\n' + blob):
        path.write_bytes(data)
        with suppress(LogError):
            read_log(path)


def test_what_wandb_exports_is_read_of_one_run(tmp_path: Path) -> None:
    """A chart's CSV by its metric, a history with its steps and clock; a chart of several runs says what to export."""
    name = "ppo - 1 - rollout/ep_rew_mean"
    head = f'"Step","{name}","{name}__MIN","{name}__MAX"'
    panel = updates(log_of(tmp_path, f"{head}\n2048,20,19,21\n4096,25,24,26\n", "panel.csv"))
    assert [row.metrics for row in panel] == [{"rollout/ep_rew_mean": 20.0}, {"rollout/ep_rew_mean": 25.0}]
    history = "_step,_timestamp,global_step,train/approx_kl\n0,1700000000.5,2048,0.01\n1,1700000002.5,4096,0.02\n"
    read = updates(log_of(tmp_path, history, "history.csv"))
    assert [(row.timesteps, row.t, row.steps_per_s) for row in read] == [
        (2048, 1700000000.5, 0.0),
        (4096, 1700000002.5, 1024.0),
    ]
    tracked = updates(log_of(tmp_path, history.replace("global_step", "timesteps"), "tracked.csv"))
    assert [row.timesteps for row in tracked] == [2048, 4096]
    with pytest.raises(LogError, match=r"a chart of 2 runs \(a, b\).*export each by itself"):
        log_of(tmp_path, "Step,a - train/loss,a - train/loss__MAX,b - train/loss\n1,2,3,4\n", "two.csv")


def test_a_table_of_several_runs_is_no_log(tmp_path: Path) -> None:
    """`metrics GROUP --csv` would be judged as one training that falls back with each run; of one run it is a log."""
    head = "run,name,seed,update,attempt,timesteps,rollout/ep_rew_mean\n"
    one = updates(log_of(tmp_path, f"{head}a,x,1,3,1,768,20\na,x,1,4,1,1024,30\n", "one.csv"))
    assert [(row.update, row.timesteps) for row in one] == [(3, 768), (4, 1024)]
    timed = "update,attempt,timesteps,t,train/loss,rollout/ep_rew_mean\n1,1,256,100.5,0.1,20\n2,1,512,101.0,0.1,20\n"
    read = updates(log_of(tmp_path, timed, "timed.csv"))
    assert [(row.timesteps, row.t, row.steps_per_s) for row in read] == [(256, 100.5, 0.0), (512, 101.0, 512.0)]
    with pytest.raises(LogError, match=r"holds several runs \(a, \.\.\.\).*judge their folders"):
        log_of(tmp_path, f"{head}a,x,1,1,1,256,20\nb,y,2,1,1,256,3\n", "two.csv")
