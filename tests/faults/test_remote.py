"""Histories of attempts on nodes that are lost, cut off or started twice; and that each invariant can fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

import pytest

from mission_tui.fleet.events.journal import Asked
from mission_tui.fleet.store import Store
from mission_tui.ipc.telemetry_messages import Order
from mission_tui.records.jsonl import AppendLog
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.launchers.engine import EngineLauncher
from mission_tui.supervisor.launchers.slurm import SlurmKnown, SlurmLauncher
from mission_tui.supervisor.lifecycle import outcome
from mission_tui.supervisor.runs import core
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.telemetry_handler import MailboxLink
from tests.faults.campaign.part import violations_in
from tests.faults.parts import remote
from tests.faults.parts.remote import histories
from tests.faults.remote import Engines

MOST = 100
"""Histories in which each planted mistake has shown."""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_k9_histories_of_remote_attempts_train_nothing_twice_and_lose_no_order() -> None:
    """Nodes die, are cut off and come back, jobs begin twice, engines forget, clocks differ: all is true in the end."""
    found, figures = violations_in(remote.PART, range(50))
    assert found == []
    for what in ("nodes lost or cut off", "engines started anew", "double starts", "supervisors killed at a call"):
        assert figures[what] > 8, figures
    assert figures["requests acknowledged"] > 40
    assert figures["settings changed"] > 8
    assert figures["ends while no engine answered"] > 4


def test_k9_a_submission_without_an_answer_that_an_engine_forgot_is_followed_by_its_files() -> None:
    """Seeds of the campaign: its trainer had begun, and it was called not started; its job waited for a free node."""
    assert violations_in(remote.PART, (2077, 2678, 4394, 4457))[0] == []


@contextmanager
def no_trainer_asks(engines: Engines) -> Iterator[None]:
    """Trainers go on and save as if there were no fence."""
    engines.asks_fence = False
    yield


@contextmanager
def started_twice(engines: Engines) -> Iterator[None]:
    """A keeper begins what was begun before."""
    engines.refuses_twice = False
    yield


@contextmanager
def no_fence(_: Engines) -> Iterator[None]:
    """The supervisor names the first attempt in it for ever."""

    def first(_attempt: int, _token: str) -> bytes:
        return b'{"attempt": 0, "token": ""}'

    with mock.patch.object(core, "fence_document", first):
        yield


@contextmanager
def nothing_fenced_off(_: Engines) -> Iterator[None]:
    """An attempt that its engine lost is over, and nobody keeps it from training."""
    with mock.patch.object(Core, "fence_off"):
        yield


@contextmanager
def asked_in_memory(_: Engines) -> Iterator[None]:
    """What was asked is acknowledged and not written down."""
    append = AppendLog.append

    def forgetful(log: AppendLog, make: Callable[[int], Any]) -> Any:
        record = make(log.last_seq + 1)
        return record if isinstance(record, Asked) else append(log, make)

    with mock.patch.object(AppendLog, "append", forgetful):
        yield


@contextmanager
def numbers_left_out(_: Engines) -> Iterator[None]:
    """The fourth line of each journal has the number of the fifth."""
    append = AppendLog.append

    def skipping(log: AppendLog, make: Callable[[int], Any]) -> Any:
        named = log.path.name == "events.jsonl" and log.path.parent.name != ".supervisor"
        return append(log, lambda seq: make(seq + (named and seq > 3)))

    with mock.patch.object(AppendLog, "append", skipping):
        yield


def unsent(what: str) -> Callable[[Engines], AbstractContextManager[object]]:
    """A mistake: orders of a kind are journaled and acknowledged, and never come into the attempt's file."""
    send = MailboxLink.send

    def silent(link: MailboxLink, order: Order) -> None:
        if order.what != what:
            send(link, order)

    return lambda _: mock.patch.object(MailboxLink, "send", silent)


def set_for_nobody_else(_: Engines) -> AbstractContextManager[object]:
    """What was set holds for the attempt that trains, and is forgotten with it."""
    return mock.patch.object(Store, "replace_spec")


def interrupted_is_over(_: Engines) -> AbstractContextManager[object]:
    """What an engine ended is left at that."""
    return mock.patch.object(outcome, "goes_on_elsewhere", return_value=False)


def an_old_list_is_believed(_: Engines) -> AbstractContextManager[object]:
    """A job is there until its engine says otherwise, whatever its keeper wrote."""

    def is_free(launcher: EngineLauncher[Any], run: RunDir) -> bool:
        known = launcher._known.get(run.id)
        return known is None or (known.order is None and (known.job is None or not (known.job.waits or known.job.runs)))

    return mock.patch.object(EngineLauncher, "is_free", is_free)


def only_slurm_is_told(_: Engines) -> AbstractContextManager[object]:
    """A kill waits for the controller."""
    return mock.patch.object(SlurmLauncher, "_tell_keeper")


def refused_for_good(_: Engines) -> AbstractContextManager[object]:
    """Where no controller answers, a further attempt is refused as a launch is."""

    def refuse(launcher: SlurmLauncher, members: Sequence[SlurmKnown], error: Exception) -> None:
        for known in members:
            launcher._refuse(known, str(error))

    return mock.patch.object(SlurmLauncher, "_put_off_or_refuse", refuse)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("plant", "said", "first"),
    [
        (no_trainer_asks, "saves ", 4),
        (no_trainer_asks, "of a later one", 4),
        (started_twice, "trains a second time", 4),
        (no_fence, "s after attempt", 4),
        (nothing_fenced_off, "is shown as ended and attempt", 5),
        (asked_in_memory, "is on record 0 times", 0),
        (numbers_left_out, "its journal is not whole", 0),
        (unsent("pause"), "pause was acknowledged in attempt", 23),
        (unsent("checkpoint"), "checkpoint was acknowledged in attempt", 12),
        (unsent("set"), "was set", 3),
        (set_for_nobody_else, "was set", 52),
        (interrupted_is_over, "was interrupted", 2),
        (an_old_list_is_believed, "while its engine was down, and is stopping", 0),
        (only_slurm_is_told, "was to be killed while its engine was down", 2),
        (refused_for_good, "was lost before it began", 11),
    ],
)
def test_k9_each_invariant_fails_by_a_planted_mistake(plant: Any, said: str, first: int) -> None:
    """One history after the other until the mistake shows, from the `first` in which it did; a change may move it."""
    figures: Counter[str] = Counter()
    seeds = [*range(first, MOST), *range(first)]
    found = histories(seeds, 1, lambda what, more: figures.update({what: more}), plant)
    assert next((violation for violation in found if said in violation), None), figures
