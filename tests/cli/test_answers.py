"""How a verdict reads in a terminal and in a file."""

from __future__ import annotations

import os
import pty
import termios

import click
import pytest
from msgspec import structs

from mission_tui.cli.answers import answer_facts, change_lines, merged, print_answer, report_answers
from mission_tui.fleet.resume.verdict import Change, Remedy, ResumeVerdict
from mission_tui.ipc.replies import Accepted, VerdictReply
from tests.drawn import drawn

WHY = "16 x gradient steps per update (8 -> 128), because the rollout grows 16 x: each update takes the policy further"
WARNED = Change(
    name="env.n_envs",
    was="4",
    now="64",
    grade="warn",
    why=WHY,
    remedies=(
        Remedy("hold-steps", "as many gradient steps per update as before", ("ppo.batch_size=4096",)),
        Remedy("branch", "a new run with these weights"),
    ),
)
REFUSED = Change("env.id", "a" * 90, "\x1b[2Jb", "refuse", "another task", "launch it anew", override=True)
REPLY = VerdictReply(re=1, run="heavy", verdict=ResumeVerdict("warn", (WARNED,)), accept_needed=True)


def plain(change: Change, width: int) -> list[str]:
    lines = change_lines(change, width)
    return ["".join(part if isinstance(part, str) else part.text for part in line) for line in lines]


def test_a_change_is_a_head_with_paragraphs_below() -> None:
    """Grade, setting and values first; why and each option indented, an option with the words that it stands for."""
    assert plain(WARNED, 200) == [
        "warn    env.n_envs: 4 -> 64",
        f"        {WHY}",
        "        --remedy hold-steps: as many gradient steps per update as before (--set ppo.batch_size=4096)",
        "        --branch: a new run with these weights",
    ]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_asked(width: int) -> None:
    """Only a word that fits no line sticks out, whole; what a terminal would act on is gone."""
    lines = plain(WARNED, width) + plain(REFUSED, width)
    assert [line for line in lines if len(line) > width and "aaa" not in line] == []
    assert sum("a" * 90 in line for line in lines) == 1
    assert not any("\x1b" in line for line in lines)
    assert any("--override env.id: resume" in line for line in lines)


def test_a_file_gets_120_columns_and_a_terminal_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Read later or at once, no line runs on for ever."""
    print_answer(REPLY)
    widest = max(map(len, capsys.readouterr().err.splitlines()[:-1]))
    assert 80 < widest <= 120
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 60))
    with os.fdopen(slave, "w") as terminal:
        monkeypatch.setattr("sys.stderr", terminal)
        print_answer(REPLY)
    shown = click.unstyle(drawn(master)).splitlines()
    assert 40 < max(map(len, shown[:-1])) <= 60


def test_why_it_cannot_start_now_is_said_and_in_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    """Beside the verdict: on stderr, and as `not_now`, which is left out where nothing is missing."""
    missing = structs.replace(REPLY, not_now="heavy cannot go on now: 9 MiB of memory are needed")
    print_answer(missing)
    said = capsys.readouterr().err
    assert "heavy cannot go on now: 9 MiB of memory are needed" in said
    assert "env.n_envs: 4 -> 64" in said
    assert answer_facts(missing)["not_now"] == missing.not_now
    assert "not_now" not in answer_facts(REPLY)


def test_a_program_reads_each_fact_of_a_resume_in_a_field_of_its_own() -> None:
    """The checkpoint, damaged newer ones, remedies that were taken, what the machine lacks; where none is, no field."""
    answered = Change("env.n_envs", "4", "64", "note", f"answered by hold-steps: {WHY}", answered_by="hold-steps")
    verdict = ResumeVerdict("warn", (answered, WARNED))
    reply = VerdictReply(re=1, run="x", verdict=verdict, accept_needed=True, checkpoint="1", damaged=("3", "2"))
    facts = answer_facts(reply)
    assert (facts["checkpoint"], facts["damaged"]) == ("1", ["3", "2"])
    assert [change.get("answered_by") for change in facts["verdict"]["changes"]] == ["hold-steps", None]
    taken = Accepted(re=1, runs=("x",), checkpoint="1", remedies=("hold-steps:env.n_envs",), warnings=("no core left",))
    said = answer_facts(taken)
    assert said["checkpoint"] == "1"
    assert said["remedies"] == ["hold-steps:env.n_envs"]
    assert said["warnings"] == ["no core left"]
    assert answer_facts(Accepted(re=1, runs=("x",))) == {"id": "x", "accepted": True, "notes": [], "verdict": None}


def test_what_a_group_was_answered_is_said_once_with_the_names(capsys: pytest.CaptureFixture[str]) -> None:
    """Runs that were answered alike are named in one line; ids stay on stdout, one a line."""
    notes = [("lr: 0.1 -> 0.2",), ("lr: 0.3 -> 0.2",), ("lr: 0.1 -> 0.2",)]
    answers = [Accepted(re=at, runs=(f"id-{at}",), notes=said) for at, said in enumerate(notes)]
    names = {f"id-{at}": f"name-{at}" for at in range(3)}
    assert report_answers(answers, as_json=False, action="set", names=names) == 0
    said = capsys.readouterr()
    assert sorted(said.out.split()) == sorted(names)
    assert said.err.splitlines() == [
        "mission-tui: name-0, name-2: lr: 0.1 -> 0.2",
        "mission-tui: name-1: lr: 0.3 -> 0.2",
    ]
    refused = [structs.replace(REPLY, re=at, run=f"id-{at}") for at in range(3)]
    assert report_answers(refused, as_json=False, action="set", names=names) == 2
    said = capsys.readouterr()
    assert said.err.count(" -> 64") == 1
    assert said.err.splitlines()[-1].startswith("mission-tui: name-0, name-1, name-2 were not changed: add --accept")


def test_that_the_cores_are_too_few_is_said_once_for_all_runs() -> None:
    """Each of several clones is told of those before it; only the last count is true of all of them."""
    told = ("2 runs need 2 cores and you have 1: each runs at 50%", "3 runs need 3 cores and you have 1: each at 33%")
    replies = [Accepted(re=1, runs=(f"r{at}",), notes=("a remark", note)) for at, note in enumerate(told)]
    assert merged([*replies, Accepted(re=1, runs=("r2",), notes=())]).notes == ("a remark", told[1])
