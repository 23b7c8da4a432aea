"""`bench`: what it measures and leaves, its verdict and exit code, and what becomes of it when it is killed."""

from __future__ import annotations

import json
import os
import re
import signal
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.shell import Shell
from tests.waiting import until

pytestmark = pytest.mark.timeout(90)

SLOW = 'run.env={STUB_UPDATE_S="0.1"}'
QUICK = 'run.env={STUB_UPDATE_S="0.025"}'
TWICE = ("--duration", "1s", "--repeat", "2", "--set", QUICK)

# A machine without other work, but for several cores' worth while the second round of the second side trains.
STOLEN = """
import time, pathlib
real, root, stolen, seen = pathlib.Path.read_text, pathlib.Path({root!r}), 0.0, time.monotonic()
def read_text(path, *words, **named):
    global stolen, seen
    text = real(path, *words, **named)
    if str(path) != "/proc/stat":
        return text
    now = time.monotonic()
    if any(root.glob("*-b2-*")) and not any(root.glob("*-a2-*")):
        stolen += 1000.0 * (now - seen)
    seen = now
    names = [line.split()[0] for line in text.splitlines() if line.startswith("cpu")]
    return "".join(f"{{name}} 0 0 0 {{now * 100:.0f}} 0 0 0 {{stolen:.0f}} 0 0\\n" for name in names)
pathlib.Path.read_text = read_text
"""


def run_folders(shell: Shell) -> list[Path]:
    """Directories of runs, made and not removed."""
    return [path.parent for path in shell.root.glob("*/spec.toml")]


def begin_with(code: str, shell: Shell, folder: Path) -> None:
    """Let every interpreter that the shell starts begin with this code."""
    (folder / "sitecustomize.py").write_text(code, encoding="utf-8")
    shell.environ["PYTHONPATH"] = f"{folder}{os.pathsep}{shell.environ['PYTHONPATH']}"


@pytest.mark.slow
def test_a_slower_preset_fails_a_build_and_leaves_only_its_numbers(quick: Shell) -> None:
    """A quarter of the speed: verdict slower, exit 1, the document in a file too, and no run is left.

    Three rounds: of two, one that is half as fast as the other on a busy machine leaves everything open.
    """
    words = ("--duration", "1s", "--repeat", "3", "--set", SLOW, "--vs", "small", "--vs-set", QUICK)
    found = quick.json("bench", "tiny", *words, "--fail-if-slower", "5%", timeout_s=80, code=1)
    assert (found["preset"], found["vs"]["preset"], found["verdict"]) == ("tiny", "small", "slower")
    assert found["ratio"]["hi"] < 1.0
    one, other = [sorted(it["seed"] for it in (*side["repeats"], *side["set_aside"])) for side in found["sides"]]
    assert one == other == list(range(1, len(one) + 1))
    first = found["sides"][0]["repeats"][0]
    assert first["timing"]["updates"] >= 4
    assert first["timing"]["duration_s"] >= 1.0
    assert first["load"]["peak_rss_bytes"] > 0
    written = json.loads(Path(found["file"]).read_bytes())
    assert written == {name: value for name, value in found.items() if name not in ("file", "figure")}
    picture = ElementTree.fromstring(Path(found["figure"]).read_text(encoding="utf-8"))
    drawn = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"bench tiny", "A tiny", "B small"} <= set(drawn)
    assert any((word or "").startswith("A tiny against B small: slower") for word in drawn)
    assert run_folders(quick) == []
    assert quick.json("status")["runs"] == []


@pytest.mark.slow
def test_a_round_that_met_other_work_is_run_again(quick: Shell, tmp_path: Path) -> None:
    """What a host takes from one run of the second round: three rounds are run, two count, and it is said."""
    begin_with(STOLEN.format(root=str(quick.root)), quick, tmp_path)
    found = quick.json("bench", "tiny", *TWICE, "--vs", "tiny", "--vs-set", QUICK, timeout_s=80)
    assert [[it["seed"] for it in side["repeats"]] for side in found["sides"]] == [[1, 3], [1, 3]]
    assert [[it["seed"] for it in side["set_aside"]] for side in found["sides"]] == [[2], [2]]
    assert any("1 loaded round left out: other programs used up to" in note for note in found["notes"])


@pytest.mark.slow
def test_an_earlier_measurement_is_held_against(quick: Shell) -> None:
    """`--keep` leaves the runs in their group; the file they were measured into is what `--vs` takes."""
    file = quick.cwd / "before.json"
    once = ("--duration", "1s", "--repeat", "1", "--set", QUICK)
    kept = quick.json("bench", "tiny", *once, "--keep", "--out", str(file), timeout_s=60)
    assert (kept["verdict"], kept["vs"]) == (None, None)
    (run,) = quick.json("status")["runs"]
    assert run["outcome"] == "finished"
    assert run["group"].startswith("bench-tiny-")
    found = quick.json("bench", "tiny", *once, "--vs", str(file), timeout_s=60)
    assert found["verdict"] is None
    assert found["ratio"]["sentence"].startswith("no verdict")
    assert any("another time" in note for note in found["notes"])


@pytest.mark.slow
def test_killing_it_leaves_no_process_and_no_half_file(quick: Shell) -> None:
    """SIGKILL of the client ends the timed run, removes what was made and writes nothing."""
    process = quick.start("bench", "tiny", "--duration", "10m")
    until(lambda: [it for it in run_folders(quick) if len(quick.rows(it.name)) > 2], 30, "it trains")
    process.kill()
    process.communicate()
    until(lambda: not run_folders(quick), 30, "the run is removed")
    until(lambda: not [it for it in quick.processes() if "stub_trainer" in " ".join(it.cmdline())], 10)
    assert not (quick.root / "benchmarks").exists()


@pytest.mark.slow
def test_a_sweep_times_what_is_valid_and_keeps_the_fastest(quick: Shell) -> None:
    """A scripted update takes as long whatever its size, so 32 environments are the fastest of those that can be had;
    what cannot be shared is said, the profile is what a launch then takes, and no run is left.
    """
    words = ("--sweep", "env.n_envs=2,32", "--sweep", "env.n_workers=2,3", "--set", QUICK)
    found = quick.json("bench", "tiny", *words, "--duration", "1s", "--repeat", "2", timeout_s=85)
    assert [row["label"] for row in found["rows"] if row["steps_per_s"]] == [
        "as it is",
        "n_envs 2, 2 workers",
        "n_envs 32, 2 workers",
    ]
    assert {row["label"] for row in found["rows"] if "cannot be shared" in row["why"]} == {
        "n_envs 2, 3 workers",
        "n_envs 32, 3 workers",
    }
    assert (found["better"], found["settings"]["env"]["n_envs"]) == (True, 32)
    written = tomllib.loads(Path(found["profile"]).read_text())
    assert written["set"] == found["settings"]
    assert run_folders(quick) == []
    assert quick.json("status")["runs"] == []
    dry = quick("launch", "tiny", "--profile", "auto", "--dry-run")
    assert "env.n_envs = 32" in dry.stdout + dry.stderr


@pytest.mark.slow
def test_a_measured_run_does_not_outlive_its_supervisor(quick: Shell) -> None:
    """SIGKILL of the supervisor while the second run trains: the next one removes both, and only those."""
    (own,) = quick.json("launch", "tiny", "--set", QUICK, "--name", "mine")["runs"]
    process = quick.start("bench", "tiny", "--duration", "2s", "--set", QUICK)
    until(lambda: len([it for it in run_folders(quick) if "bench-tiny" in it.name]) == 2, 60, "the second run begins")
    os.kill(quick.json("status")["supervisor"]["pid"], signal.SIGKILL)
    process.communicate()
    assert own["id"] in [run["id"] for run in quick.json("status")["runs"]]
    until(lambda: [it.name for it in run_folders(quick)] == [own["id"]], 30, "the measured runs are removed")
    assert [run["id"] for run in quick.json("status")["runs"]] == [own["id"]]


@pytest.mark.slow
def test_a_run_that_fails_ends_it_and_stays(quick: Shell) -> None:
    """Exit 1 with the cause; the run that failed is there to be looked at."""
    quick.environ["STUB_DIES_AT"] = "3"
    done = quick("bench", "tiny", "--duration", "20s")
    assert done.returncode == 1
    assert "failed" in done.stderr
    assert "mission-tui logs bench-tiny-" in done.stderr
    assert len(run_folders(quick)) == 1


@pytest.mark.slow
def test_updates_too_slow_for_the_time_say_which_would_do(quick: Shell) -> None:
    """Exit 1 after the first run, with a time in which five such updates fit; nothing was measured, and no run
    that has finished is left behind.
    """
    once = ("--duration", "1s", "--repeat", "3", "--set", 'run.env={STUB_UPDATE_S="1.5"}')
    done = quick("bench", "tiny", *once)
    assert done.returncode == 1
    assert re.search(r"did 1 update in \d s, too few .*; give --duration [12]0s or more", done.stderr)
    assert run_folders(quick) == []
    assert not (quick.root / "benchmarks").exists()


@pytest.mark.slow
def test_a_later_run_that_had_no_time_ends_nothing(quick: Shell, tmp_path: Path) -> None:
    """Its round is run again, and nothing stays of it."""
    slow = "import os, sys\nif any('-b2-' in word for word in sys.orig_argv): os.environ['STUB_UPDATE_S'] = '1.5'\n"
    begin_with(slow, quick, tmp_path)
    found = quick.json("bench", "tiny", *TWICE, "--vs", "tiny", "--vs-set", QUICK, timeout_s=80)
    seeds = [[it["seed"] for it in (*side["repeats"], *side["set_aside"])] for side in found["sides"]]
    assert seeds[0] == seeds[1]
    assert {1, 3} <= set(seeds[0])
    assert 2 not in seeds[0]
    assert run_folders(quick) == []


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("pair",), "makes 2 runs, but bench takes one"),
        (("tiny", "small"), "times one preset, not 2"),
        (("tiny", "--duration", "soon"), "--duration 'soon' is not a length of time"),
        (("tiny", "--fail-if-slower", "5%"), "give --vs PRESET or FILE"),
        (("tiny", "--vs", "none.json"), "cannot be read"),
        (("tiny", "--vs", "small", "--sweep", "env.n_envs=2,4"), "leave --vs and --fail-if-slower out"),
        (("tiny", "--sweep", "env.n_envs=4"), "--sweep leaves nothing to compare"),
        (("tiny", "--figure", "speeds.gif"), "the name has to end in .svg or .png"),
        (("tiny", "--vs", "small", "--fail-if-slower", "much"), "not a percentage"),
    ],
)
def test_mistakes_are_said_before_anything_starts(quick: Shell, words: tuple[str, ...], complaint: str) -> None:
    """Exit 2, one line, and no supervisor."""
    done = quick.typed("bench", *words)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert not quick.root.exists()
