"""A runs root, presets and words of somebody hostile: every verb that looks says them without a single control.

In a pipe and as a document no byte but line breaks and printable characters leaves a verb; on a terminal only colours
of our own do.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import tomli_w

from benchmarks.terminal import started_on_terminal
from mission_tui.cli.root import looking, main
from mission_tui.cli.terminal_output import encode_document
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.journal import (
    AttemptEnded,
    FindingChanged,
    FleetEvent,
    RunCreated,
    RunLabelled,
    RunNoted,
)
from mission_tui.fleet.events.metrics import MetricRecord, UpdateDone
from mission_tui.fleet.events.provenance import Provenance, Repository
from mission_tui.records.jsonl import decode_line, encode_line

FIXTURE = Path(__file__).parents[1] / "fixtures" / "format-1" / "20261121-040628-recorded-2aa5"
RUN, OTHER = FIXTURE.name, "20261121-040629-recorded-3bb6"
EVIL = (
    "evil\x1b]0;owned\x07\x1b[38;5;201m\x9b2J\x9d0;t\x9c\x1bP1$r\x1b\\\x85\r\x08\x7f\u202e\u2066\u200b\u2028\ufeff\u061c"
    "\x1b[6n\x1b[?1049l end"
)
EVIL_NAME = EVIL.replace("/", "")
"""As part of a path."""
LOUD = (b"\x1b]", b"\x1bP", b"\x1b[38;5;201m", b"\x1b[6n", b"\x1b[?1049l", b"\x07", b"\x08", b"\x7f")


def controls(text: str) -> set[str]:
    """What is in `text` besides line breaks and what can be seen; a blank of any width is one."""
    return {character for character in text if character != "\n" and not character.isprintable()}


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: two runs and a preset whose every word is hostile, in a folder with a hostile name."""
    folder = tmp_path / f"repo {EVIL_NAME}"
    for run in (RUN, OTHER):
        spoil(Path(shutil.copytree(FIXTURE, folder / "runs" / run)))
    (folder / "presets").mkdir()
    tables = {"description": EVIL, "env": {"id": f"my:{EVIL}", "imports": [EVIL]}, "run": {"total_timesteps": 5000}}
    (folder / "presets" / "mine.toml").write_text(tomli_w.dumps(tables), encoding="utf-8")
    (folder / "presets" / f"{EVIL_NAME}.toml").write_text("[env]\nid = 3\n", encoding="utf-8")
    for name in ("MISSION_TUI_RUNS", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(folder)
    return folder


def spoil(run: Path) -> None:
    """Every text of the run that its owner may write as they like."""
    events = [decode_line(line, FleetEvent) for line in (run / "events.jsonl").read_bytes().splitlines()]
    finding = Finding(
        id="kl-persistent-1-3", rule="kl-persistent", severity="critical", first_update=1, last_update=2,
        sentence=EVIL, cause=EVIL, advice=EVIL, advice_set=(f"ppo.n_epochs={EVIL}",),
    )  # fmt: skip
    changed: list[Any] = []
    for event in events:
        if isinstance(event, RunCreated):
            event = msgspec.structs.replace(event, name=EVIL, preset=EVIL, group=EVIL)  # noqa: PLW2901
        elif isinstance(event, AttemptEnded):
            outcome = {**msgspec.to_builtins(event.outcome), "cause": EVIL}
            event = msgspec.structs.replace(event, outcome=msgspec.convert(outcome, type(event.outcome)))  # noqa: PLW2901
        changed.append(event)
    t, seq = events[-1].t, len(events)
    changed += [
        FindingChanged(seq + 1, t, finding),
        RunNoted(seq + 2, t, EVIL, EVIL),
        RunLabelled(seq + 3, t, (EVIL,), (), EVIL),
    ]
    (run / "events.jsonl").write_bytes(b"".join(encode_line(event).removesuffix(b"\n") + b"\n" for event in changed))
    rows = [decode_line(line, MetricRecord) for line in (run / "metrics.jsonl").read_bytes().splitlines()]
    for row in rows:
        if isinstance(row, UpdateDone):
            row.metrics[EVIL] = 1.0
    (run / "metrics.jsonl").write_bytes(b"".join(encode_line(row).removesuffix(b"\n") + b"\n" for row in rows))
    machine, packages = {"GPU": EVIL, EVIL: EVIL}, {EVIL: EVIL}
    repositories = (Repository(name=EVIL, path=EVIL, commit=EVIL, diff_file=EVIL),)
    provenance = Provenance(
        t=t, command=EVIL, cwd=EVIL, python=EVIL, python_version=EVIL,
        packages=packages, repositories=repositories, machine=machine,
    )  # fmt: skip
    for attempt in (run / "attempts").iterdir():
        (attempt / "provenance.json").write_bytes(msgspec.json.encode(provenance))
        (attempt / "output.log").write_text(f"{EVIL}\n|  a     | {EVIL} |\n", encoding="utf-8")


LOOKS: tuple[tuple[str, ...], ...] = (
    ("--readonly", "status"),
    ("--readonly", "status", RUN),
    ("--readonly", "status", RUN, "--provenance"),
    ("--readonly", "top"),
    ("--readonly", "logs", RUN),
    ("--readonly", "logs", RUN, "--attempt", "1"),
    ("--readonly", "metrics", RUN),
    ("--readonly", "findings"),
    ("--readonly", "findings", RUN),
    ("--readonly", "findings", RUN, "--replay"),
    ("--readonly", "compare", RUN, OTHER),
    ("--readonly", "report", RUN, "--html", f"{EVIL_NAME}.html"),
    ("--readonly", "screenshot", RUN, "--out", f"{EVIL_NAME}.svg", "--size", "80x24"),
    ("--readonly", "wait", RUN),
    ("judge", f"runs/{RUN}"),
    ("presets",),
    ("presets", "show", "mine"),
    ("presets", "show", "mine", "--resolved"),
    ("paths",),
    ("doctor",),
    ("supervisor", "status"),
    ("service", "status"),
    ("launch", "mine", "--dry-run"),
    ("status", "--all-roots"),
)
"""Every verb that only looks, with what it says of one run where it does."""

AS_CSV = (("--readonly", "metrics", RUN, "--csv"), ("--readonly", "top", "--csv"))
MISTAKES: tuple[tuple[str, ...], ...] = (
    (EVIL,),
    ("--readonly", "status", EVIL),
    ("--runs-dir", f"/proc/{EVIL}", "status"),
    ("launch", EVIL),
    ("launch", "mine", "--set", EVIL),
    ("launch", "--preset", f"{EVIL_NAME}.toml"),
    ("presets", "show", EVIL),
    ("logs", RUN, "--grep", f"({EVIL}"),
    ("judge", EVIL),
    (f"--{EVIL}",),
    ("status", f"--{EVIL}"),
    ("launch", "mine", "-n", EVIL),
    ("top", "--csv", "--last", EVIL),
    ("import-run", EVIL, "--logs-only"),
    ("report", EVIL, "--html", f"{EVIL_NAME}.html"),
    ("report", RUN, "--html", f"no {EVIL_NAME}/{EVIL_NAME}.html"),
    ("screenshot", "--out", EVIL_NAME),
    ("screenshot", "--out", f"no {EVIL_NAME}/all.svg"),
    ("screenshot", "--out", "all.svg", "--size", EVIL),
    ("serve", "--port", EVIL),
)


def test_every_verb_that_looks_is_tried() -> None:
    """A new one is added to the list above; replay without `--json` is the screen, serve has a test below, and
    bridge speaks the protocol, in JSON, to a client that cleans what it shows.
    """
    assert set(looking()) - {"replay", "serve", "bridge"} <= {word for words in LOOKS for word in words}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("words", [*LOOKS, *AS_CSV, *MISTAKES], ids=lambda words: " ".join(words).encode().hex()[:24])
def test_no_verb_says_a_control(words: tuple[str, ...], hostile: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Into a pipe: words of others are printable, and lines break only where the verb breaks them."""
    assert hostile.is_dir()
    main(list(words))
    out, err = capfd.readouterr()
    assert out or err
    assert (controls(out), controls(err)) == (set(), set())


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "words",
    [*(it for it in LOOKS if it[-1] not in ("--dry-run",)), ("replay", "--at", "2026-11-21T04:06:40")],
    ids=lambda words: " ".join(words).encode().hex()[:24],
)
def test_no_document_holds_a_raw_control(
    words: tuple[str, ...], hostile: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """With `--json` what a terminal could act on is an escape of JSON, and reads back as it was written."""
    assert hostile.is_dir()
    main([*words, "--json"])
    out, err = capfd.readouterr()
    assert (controls(out), controls(err)) == (set(), set())
    assert [json.loads(line) for line in out.splitlines()]
    if words[1:2] == ("findings",) and "--replay" not in words:
        assert json.dumps(EVIL) in json.dumps(json.loads(out))


@pytest.mark.parametrize("as_json", [False, True])
def test_serve_says_no_control(
    as_json: bool, hostile: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It names the runs root beside the address, and then waits for browsers; here without its extra, and for none."""
    bound = SimpleNamespace(getsockname=lambda: ("127.0.0.1", 8765))
    server = SimpleNamespace(
        HOST="127.0.0.1",
        ScreenCall=lambda *_: None,
        ScreenServer=lambda *_: None,
        listening=lambda _: bound,
        serve=lambda *_: None,
    )
    monkeypatch.setitem(sys.modules, "mission_tui.web.server", server)
    assert main(["serve", "--port", "0", *(["--json"] if as_json else [])]) == 0
    out, err = capfd.readouterr()
    assert hostile.name[:5] in out
    assert (controls(out), controls(err)) == (set(), set())


def written(words: tuple[str, ...], folder: Path) -> bytes:
    """All that the command writes to a terminal."""
    environ = dict(os.environ) | {"TERM": "xterm-256color", "OMP_NUM_THREADS": "1"}
    process, master = started_on_terminal([sys.executable, "-m", "mission_tui", *words], environ, folder, 200, 50)
    said = b""

    def pieces() -> Iterator[bytes]:
        try:
            while piece := os.read(master, 65536):
                yield piece
        except OSError:
            return

    try:
        said = b"".join(pieces())
        process.wait(timeout=30)
    finally:
        process.kill()
        process.wait()
        os.close(master)
    return said


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "words",
    [
        LOOKS[0],
        LOOKS[2],
        LOOKS[4],
        LOOKS[8],
        LOOKS[10],
        ("--readonly", "wait", RUN),
        ("doctor",),
        ("presets",),
        MISTAKES[0],
    ],
    ids=lambda words: " ".join(words).encode().hex()[:24],
)
def test_on_a_terminal_only_colours_of_our_own_are_written(words: tuple[str, ...], hostile: Path) -> None:
    """Rich draws the tables there, and draws what others wrote as text."""
    said = written(words, hostile)
    assert b"end" in said or len(said) > 20
    assert [loud for loud in LOUD if loud in said] == []
    assert controls(said.decode().replace("\x1b", "").replace("\r\n", "\n")) <= {"\r"}


def test_paths_that_are_no_text_are_said_with_a_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A folder whose name is bytes that are no UTF-8: lines and documents say so and can be written."""
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad-\xff\x9b"))
    (folder / "runs").mkdir(parents=True)
    monkeypatch.chdir(folder)
    for words in (
        ("paths",),
        ("paths", "--json"),
        ("doctor",),
        ("doctor", "--json"),
        ("supervisor", "status", "--json"),
    ):
        main(list(words))
        out, err = capfd.readouterr()
        assert "bad-\ufffd\ufffd" in out + err
        assert (controls(out), controls(err)) == (set(), set())


def test_documents_escape_what_does_not_show() -> None:
    """C1, bidirectional and invisible characters and those of other planes; letters of all scripts stay."""
    facts = {"Größe 猫": EVIL, "tag": "\U000e0041", "path": os.fsdecode(b"\xff")}
    text = encode_document(facts)
    assert text.isprintable()
    assert "Größe 猫" in text
    assert json.loads(text) == facts | {"path": "\ufffd"}


def test_a_traceback_is_cleaned_too(tmp_path: Path) -> None:
    """Python's last word holds whatever an exception was raised with."""
    program = (
        "import sys, mission_tui.__main__ as door, mission_tui.cli.root as root\n"
        "def failing(): raise RuntimeError(sys.argv[1])\n"
        "root.main = failing\n"
        "door.main()\n"
    )
    words = [sys.executable, "-c", program, EVIL]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 1
    assert "RuntimeError: evil" in done.stderr
    assert controls(done.stderr) == set()
