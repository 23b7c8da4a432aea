"""What reaches `metrics.jsonl` and the socket, and what happens when the disk says no."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
import torch

from mission_tui.errors import PresetError
from mission_tui.fleet.events.metrics import DutyFailed, Episodes, MetricRecord, UpdateDone
from mission_tui.ipc.telemetry_messages import RowsWritten, TelemetryMessage, TrainerDutyFailed
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.failures import CallbackError, EnvError, NonFiniteError, classify, is_library
from mission_tui.trainer.record import EventFile, Record
from mission_tui.trainer.vec_env.episodes import EpisodeTally


def test_rows_go_on_where_an_earlier_attempt_ended(tmp_path: Path) -> None:
    """Sequence numbers never restart; steps per second count from where the attempt stood."""
    run_dir = RunDir(tmp_path)
    for attempt in (1, 2):
        with Record(run_dir, attempt, lambda _: None) as record:
            record.started(5, 100, None, exact=False)
            record.updated(6, 164, 0.5, 0.5, {"train/loss": float("nan")}, Episodes())
    rows, damage = read_all(run_dir.metrics, MetricRecord)
    assert damage == []
    assert [row.seq for row in rows] == [1, 2, 3, 4]
    last = rows[-1]
    assert isinstance(last, UpdateDone)
    assert (last.attempt, last.steps_per_s, last.metrics) == (2, 64.0, {"train/loss": "nan"})


def test_refused_rows_are_said_once_and_written_when_the_disk_takes_them(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that refuses ends no training and costs no row; nobody is told of rows that are not there."""
    import os

    said: list[TelemetryMessage] = []
    with Record(RunDir(tmp_path), 1, said.append) as record:

        def full(*_: object) -> int:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            record.started(0, 0, None, exact=False)
            record.updated(1, 64, 0.5, 0.5, {}, Episodes())
        (waits,) = said
        assert isinstance(waits, TrainerDutyFailed)
        assert (waits.duty, waits.number) == ("metrics.jsonl", 1)
        said.clear()
        record.updated(2, 128, 0.5, 0.5, {}, Episodes())
    assert said == [RowsWritten(3)]
    assert capfd.readouterr().err.count("rows of metrics.jsonl wait for the disk") == 1
    rows, damage = read_all(RunDir(tmp_path).metrics, MetricRecord)
    assert damage == []
    assert [row.seq for row in rows] == [1, 2, 3]
    assert [row.update for row in rows if isinstance(row, UpdateDone)] == [1, 2]
    assert rows[0].t <= rows[1].t <= rows[2].t


def test_at_most_256_episodes_are_kept_of_any_number() -> None:
    """The count stays exact, the sample is even from first to last, and outcomes are all counted."""
    tally = EpisodeTally()
    for index in range(1000):
        tally.add([{}, {"episode": {"r": float(index), "l": index}, "outcome": "won" if index % 2 else "lost"}])
    episodes = tally.take()
    assert (episodes.n, len(episodes.r), episodes.outcomes) == (1000, 256, {"lost": 500, "won": 500})
    assert (episodes.r[0], episodes.r[-1]) == (0.0, 999.0)
    assert list(episodes.l) == sorted(set(episodes.l))
    assert tally.take() == Episodes()


def test_outcomes_are_cleaned_at_the_door() -> None:
    """An environment's word is foreign text."""
    tally = EpisodeTally()
    tally.add([{"episode": {"r": 0.0, "l": 1}, "outcome": "\x1b[31mwon\n" + "x" * 100}])
    (word,) = tally.take().outcomes
    assert word.startswith("won")
    assert word.isprintable()
    assert len(word) <= 40


@pytest.mark.parametrize(
    ("error", "kind", "exit_code"),
    [
        (PresetError("no"), "config", 78),
        (EnvError("no"), "env", 1),
        (NonFiniteError("no"), "nan", 1),
        (MemoryError(), "oom", 1),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), "oom", 1),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "oom", 1),
        (RuntimeError("CUDA error: the GPU is lost"), "gpu_lost", 1),
        (RuntimeError("CUDA error: out of memory"), "oom", 1),
        (RuntimeError("CUDA error: uncorrectable ECC error encountered"), "gpu_lost", 1),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), "gpu_fault", 1),
        (RuntimeError("CUDA error: unspecified launch failure"), "gpu_fault", 1),
        (RuntimeError("CUDA error: no kernel image is available for execution on the device"), "config", 78),
        (RuntimeError("CUDA error: invalid argument"), "unknown", 1),
        (RuntimeError("something else"), "unknown", 1),
        (KeyError("x"), "unknown", 1),
    ],
)
def test_every_error_has_a_kind(error: Exception, kind: str, exit_code: int) -> None:
    """The closed set of kinds, and 78 for what the person can mend in the preset."""
    failure = classify(error)
    assert (failure.kind, failure.exit_code) == (kind, exit_code)
    assert "\n" not in failure.cause


NO_MEMORY = (
    "CUDA out of memory. Tried to allocate 128.00 MiB. GPU 0 has a total capacity of 79.18 GiB of which 108.62 MiB is "
    "free. Process 1150 has 78.20 GiB memory in use. Including non-PyTorch memory, this process has 884.00 MiB memory "
    "in use."
)
DIVIDED = (
    " Of the allocated memory 121.33 MiB is allocated by PyTorch, with 1023.50 KiB allocated in private pools (e.g., "
    "CUDA Graphs), and 16.67 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large "
    "try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
)
"""Both as an H100 that another process had filled had them said."""


def test_an_environment_without_memory_is_out_of_memory() -> None:
    """Where the trainer steps it, the cause says what it was; other causes leave it the environment's."""
    kinds = []
    for cause in (MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory"), KeyError("x")):
        error = EnvError("an environment raised it")
        error.__cause__ = cause
        kinds.append(classify(error).kind)
    assert kinds == ["oom", "oom", "env"]


def test_a_full_gpu_is_named_with_who_holds_its_memory() -> None:
    """In a sentence that ends where it should, not in the middle of torch's advice."""
    assert classify(RuntimeError(NO_MEMORY + DIVIDED)).cause == f"RuntimeError: {NO_MEMORY}"


def test_packages_of_another_environment_are_no_code_of_the_users() -> None:
    """An environment may see the packages of another one, as with `make run SYSTEM=1`."""
    assert is_library("/opt/torch/.venv/lib/python3.12/site-packages/numpy/linalg/_linalg.py")
    assert is_library("/usr/lib/python3/dist-packages/yaml/__init__.py")
    assert is_library(json.__file__)
    assert not is_library("/home/ada/lab/my_env.py")


HOW_TO_LOOK = """
Search for `cudaErrorAssert' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more.
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
"""
"""What torch 2.11 says behind each error of CUDA."""


ASSERTED = (
    "CUDA error: device-side assert triggered; a kernel got an index out of range, often of an action or an "
    "observation outside of its space; run.env.CUDA_LAUNCH_BLOCKING=1 says in which line"
)
TOO_OLD = "The NVIDIA driver on your system is too old (found version 11040)"
UPDATE = ". Please update your GPU driver by downloading and installing a new version from the URL: http://x.example/"


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("CUDA error: device-side assert triggered", ASSERTED),
        ("CUDA error: an invalid argument", "AcceleratorError: CUDA error: an invalid argument"),
        (
            TOO_OLD + UPDATE,
            f"{TOO_OLD}; install a newer driver, or a torch for an older CUDA, or set run.device = 'cpu'",
        ),
    ],
)
def test_an_error_of_the_gpu_is_one_sentence_with_advice(said: str, cause: str) -> None:
    """Without torch's words on how to look for it, and without a line: what raised it only asked later."""
    with pytest.raises(torch.AcceleratorError) as raised:
        raise torch.AcceleratorError(said + HOW_TO_LOOK)
    assert classify(raised.value).cause == cause


def test_a_callback_may_be_where_the_gpu_fails() -> None:
    """The fault is no fault of the callback."""
    error = CallbackError("a callback raised")
    error.__cause__ = RuntimeError("CUDA error: device-side assert triggered" + HOW_TO_LOOK)
    assert classify(error).kind == "gpu_fault"


def test_a_cause_says_what_was_raised_and_where() -> None:
    """A foreign exception is named with its line of code."""
    with pytest.raises(ValueError, match="invalid literal") as raised:
        int("a\nb")
    cause = classify(raised.value).cause
    assert cause.startswith("ValueError: invalid literal")
    assert "(test_record.py:" in cause


def test_events_that_go_on_once_the_disk_has_room_are_no_failure_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row that says that they failed is followed by one that says that this is over."""
    writer = pytest.importorskip("torch.utils.tensorboard", reason="the extra `tensorboard` is not installed")
    monkeypatch.setattr("mission_tui.trainer.record._LOOK_S", 0.0)
    with Record(RunDir(tmp_path), 1, lambda _: None) as record:
        duty = "TensorBoard events"
        events = EventFile(tmp_path, 1, 0, partial(record.failed, duty), partial(record.works_again, duty))
        with monkeypatch.context() as patch:

            def full(*_: object) -> None:
                raise OSError(28, "No space left on device")

            patch.setattr(writer.SummaryWriter, "add_scalar", full)
            events.write({"train/loss": 1.0}, 64)
        events.write({"train/loss": 2.0}, 128)
        events.close()
    rows, _ = read_all(RunDir(tmp_path).metrics, MetricRecord)
    assert [(row.duty, row.number, row.over) for row in rows if isinstance(row, DutyFailed)] == [
        (duty, 1, False),
        (duty, 1, True),
    ]
