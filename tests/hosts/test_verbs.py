"""`--host`: verbs carried out on other machines, over a real sshd."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys

import pytest

from mission_tui.cli import hosts
from mission_tui.errors import EX_UNAVAILABLE, EX_USAGE
from mission_tui.fleet.tuning.profile import HostProfile, task_of
from mission_tui.ipc.hosts import Host
from mission_tui.records.runs.attempt import read_attempt_spec
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.tuning_files import host_fingerprint, profile_path, versions_here, write_profile
from tests.hosts.conftest import awake, config_file
from tests.hosts.sshd import Sshd
from tests.shell import Shell
from tests.waiting import until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(120)]


def test_a_run_of_another_machine_is_launched_seen_and_stopped_from_here(quick: Shell, far: dict[str, Shell]) -> None:
    """Its files lie there, none here; `--host` may stand before the verb or behind it."""
    done = quick("launch", "tiny", "--host", "gpu1", "--json", "--name", "away")
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    assert (far["gpu1"].root / run["id"]).is_dir()
    assert not list(quick.root.glob("*-away*"))
    found = quick.typed("status", "--host", "all", "--json")
    assert found.returncode == 0, found.stderr
    machines = {machine["host"]: machine for machine in json.loads(found.stdout)["hosts"]}
    assert {name: [it["name"] for it in machine["status"]["runs"]] for name, machine in machines.items()} == {
        "here": [],
        "gpu1": ["away"],
        "gpu2": [],
    }
    assert "gpu1:\n" in quick.typed("--host=gpu1", "--host=gpu2", "status").stdout
    far["gpu1"].advancing(run["id"])
    assert quick("--host", "gpu1", "stop", "away").returncode == 0
    until(lambda: far["gpu1"].view(run["id"])["outcome"] == "stopped")


def test_the_host_profile_of_the_machine_that_trains_is_used(quick: Shell, far: dict[str, Shell]) -> None:
    """What was found there lies over the preset there; here it is not known, and nothing of here goes along."""
    program, config = quick.cwd / "gpu1" / "mission-tui", quick.cwd / "gpu1" / "config"
    shutil.copytree(config_file(quick).parent, config / "mission-tui")
    there = f"XDG_CONFIG_HOME={shlex.quote(str(config))} {sys.executable}"
    program.write_text(program.read_text().replace(sys.executable, there, 1))
    done = quick("--host", "gpu1", "launch", "tiny", "--json")
    assert done.returncode == 0, done.stderr
    (made,) = json.loads(done.stdout)["runs"]
    host, spec = host_fingerprint(), read_attempt_spec(RunDir(far["gpu1"].root / made["id"]), 1)
    settings = {"env": {"n_envs": 2 * spec.env.n_envs}}
    found = HostProfile("tiny", "now", "it is faster", host, versions_here(), task_of(spec), settings)
    write_profile(profile_path(config / "mission-tui" / "profiles", "tiny", host["host"]), found)
    words = ("launch", "tiny", "--profile", "auto", "--dry-run", "--json")
    elsewhere, here = (quick(*at, *words) for at in (("--host", "gpu1"), ()))
    assert f"sets env.n_envs = {2 * spec.env.n_envs}" in elsewhere.stdout + elsewhere.stderr
    assert "there is no host profile of tiny yet" in here.stdout + here.stderr


def test_what_the_other_machine_refuses_is_refused_here(quick: Shell, far: dict[str, Shell]) -> None:
    """With its words and its exit code; the words after `--` are the run's own."""
    awake(far["gpu1"])
    refused = quick("--host", "gpu1", "stop", "nobody")
    assert (refused.returncode, "nobody" in refused.stderr) == (EX_USAGE, True)
    (quick.cwd / "mine.toml").write_text("")
    mine = quick("--host", "gpu1", "launch", "./mine.toml")
    assert (mine.returncode != 0, "./mine.toml was looked for on gpu1" in mine.stderr) == (True, True), mine.stderr
    run = quick("--host", "gpu2", "launch", "--json", "--", "sleep", "--host", "300")
    assert run.returncode == 0, run.stderr
    (made,) = json.loads(run.stdout)["runs"]
    launched = json.loads(next((far["gpu2"].root / made["id"]).glob("**/launch.json")).read_text())
    assert launched["argv"][1:] == ["--host", "300"]


def test_a_launch_goes_where_it_would_begin_first(
    quick: Shell, far: dict[str, Shell], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`best` asks every machine for its price: where it would wait it comes last, then how long it takes decides."""
    done = quick("--host", "best", "launch", "tiny", "--json")
    assert done.returncode == 0, done.stderr
    assert "1 of 1 would begin at once" in done.stderr

    def price(waits: str | None, whole_run_s: float | None) -> hosts._Answer:
        return hosts._Answer(
            0, json.dumps({"runs": [{"cost": {"waits": waits, "whole_run_s": whole_run_s}}]}).encode(), ""
        )

    answers = {
        "busy": price("memory", 10.0),
        "slow": price(None, 900.0),
        "fast": price(None, 60.0),
        "unknown": price(None, None),
        "down": hosts._Answer(EX_UNAVAILABLE, b"", "no route"),
    }
    monkeypatch.setattr(hosts, "asked_hosts", lambda *_: dict.fromkeys(answers))
    monkeypatch.setattr(hosts, "_answers", lambda *_: answers)
    assert hosts._best(["launch", "tiny"]) == ("fast", "1 of 1 would begin at once and train for 1m00")
    assert "down has no price: no route" in capsys.readouterr().err


def test_machines_that_do_not_answer_are_said_in_one_sentence(quick: Shell, far: dict[str, Shell], sshd: Sshd) -> None:
    """The others are shown all the same."""
    elsewhere = quick.typed("--host", "not a host", "status")
    assert (elsewhere.returncode, "no address for ssh" in elsewhere.stderr) == (EX_USAGE, True)
    file = config_file(quick)
    file.write_text(file.read_text() + 'gpu3 = {command = "/no/such/mission-tui"}\n')
    missing = quick("--host", "gpu3", "status")
    assert missing.returncode == EX_UNAVAILABLE
    assert "gpu3: /no/such/mission-tui is not found there: install mission-tui there" in missing.stderr
    both = quick.typed("--host", "here", "--host", "gpu3", "status")
    assert (both.returncode, "/no/such/mission-tui is not found there" in both.stderr) == (EX_UNAVAILABLE, True)
    quick.environ["MISSION_TUI_SSH"] += " -p 1"
    found = quick.typed("--host", "here", "--host", "gpu1", "status", "--json")
    assert found.returncode == EX_UNAVAILABLE
    here, gpu1 = json.loads(found.stdout)["hosts"]
    assert here["status"]["runs"] == []
    assert gpu1["status"] is None
    assert "Connection refused" in gpu1["error"]


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_machine_that_talks_without_end_is_not_heard_out(quick: Shell, stream: str) -> None:
    """On either stream; the others are shown, and its words fill no memory."""
    script = quick.cwd / "endless"
    script.write_text(f"#!/bin/sh\nexec cat /dev/zero >&{stream}\n", encoding="ascii")
    script.chmod(0o700)
    quick.environ["MISSION_TUI_SSH"] = str(script)
    found = quick.typed("--host", "here", "--host", "gpu9", "status", "--json")
    assert found.returncode == EX_UNAVAILABLE
    here, endless = json.loads(found.stdout)["hosts"]
    assert here["status"]["runs"] == []
    assert endless == {"host": "gpu9", "status": None, "error": "it says more than 64 MiB, and was not heard out"}


def test_a_line_without_an_end_is_passed_on_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a machine says on standard error beside a verb fills no memory, and comes as it is said."""
    pieces: list[str] = []
    monkeypatch.setattr(hosts, "write", lambda text, **_to: pieces.append(text))
    words = ["/bin/sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x >&2; exit 3"]
    code, said = hosts._run_passing_errors_on(words, "gpu9", Host("gpu9", "gpu9"))
    assert code == 3
    assert (sum(map(len, pieces)), set(said)) == (300_000, {"x"})
    assert len(pieces) > 3


def test_what_cannot_be_asked_of_several_machines_is_refused(quick: Shell) -> None:
    """Before any of them is reached for."""
    for words, said in (
        (("--host", "a", "--host", "b", "stop", "x"), "stop works on one machine at a time"),
        (
            ("--host", "a", "--host", "b", "status", "--watch"),
            "name one of a, b with --host, or open a screen of all of them with 'mission-tui --host a --host b'",
        ),
        (("--host", "all", "status"), "names no machine yet"),
        (("--host", "best", "status"), "it goes with launch, alone"),
        (("status", "--host"), "--host has to name a machine"),
        (("--host", "a", "statsu"), "did you mean 'status'?"),
        (("--host", "gpu1:demo", "stop"), "its name has no colon"),
    ):
        done = quick.typed(*words)
        assert (done.returncode, said in done.stderr) == (EX_USAGE, True), (words, done.stderr)


def test_runs_of_one_name_are_told_apart_and_compared(quick: Shell, far: dict[str, Shell]) -> None:
    """An order reaches the one of its machine alone; `gpu1:same` is compared with `gpu2:same`."""
    ids = {name: awake(far[name]).launch("tiny", "--name", "same")[0] for name in ("gpu1", "gpu2")}
    for name, run in ids.items():
        far[name].advancing(run)
    found = quick.json("compare", "gpu2:same", "gpu1:same")
    assert [run["name"] for run in found["runs"]] == ["gpu2:same", "gpu1:same"]
    unknown = quick.typed("compare", "gpu1:same", "gpu9:same")
    assert (unknown.returncode, "did you mean 'gpu2'?" in unknown.stderr or "'gpu1'?" in unknown.stderr) == (
        EX_USAGE,
        True,
    )
    assert quick("--host", "gpu2", "kill", "same").returncode == 0
    until(lambda: far["gpu2"].view(ids["gpu2"])["outcome"] == "killed")
    assert far["gpu1"].view(ids["gpu1"])["outcome"] is None


def test_a_name_that_nobody_gave_and_one_that_is_given_twice(quick: Shell, far: dict[str, Shell], sshd: Sshd) -> None:
    """The nearest name is said, the others are shown all the same, and each machine is asked once."""
    awake(far["gpu1"])
    found = quick.typed("--host", "gpu1", "--host=gpu1", "--host", "gpu22", "status", "--json")
    assert found.returncode != 0
    gpu1, other = json.loads(found.stdout)["hosts"]
    assert (gpu1["host"], gpu1["error"]) == ("gpu1", None)
    assert (other["host"], other["status"]) == ("gpu22", None)
    once = quick("--host", "gpu22", "status")
    assert (once.returncode, "did you mean 'gpu2'?" in once.stderr) == (EX_UNAVAILABLE, True)


def test_what_ssh_would_ask_for_is_said_in_a_sentence(quick: Shell, far: dict[str, Shell], sshd: Sshd) -> None:
    """A host key that is not known, and a password: nobody is asked, and what helps is said."""
    strict = f"{sshd.ssh} -o StrictHostKeyChecking=yes"
    awake(quick)
    nobody = f"{sshd.ssh} -o IdentityFile=/dev/null -o IdentityAgent=none -F /dev/null -p {sshd.port}"
    nobody += " -o HostName=127.0.0.1 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
    for words, said in ((strict, "its host key is not known here"), (nobody, "it wants a password")):
        quick.environ["MISSION_TUI_SSH"] = words
        alone = quick("--host", "gpu1", "status")
        assert (alone.returncode, f"gpu1 was not reached: {said}" in alone.stderr) == (EX_UNAVAILABLE, True)
        found = quick.typed("--host", "here", "--host", "gpu1", "status", "--json")
        assert found.returncode == EX_UNAVAILABLE
        _, gpu1 = json.loads(found.stdout)["hosts"]
        assert said in gpu1["error"], gpu1


def test_a_verb_whose_line_breaks_says_that_it_may_be_done(quick: Shell, far: dict[str, Shell], sshd: Sshd) -> None:
    """The machine was reached, so it is not said that it was not."""
    awake(far["gpu1"])
    waits = quick.start("--host", "gpu1", "launch", "tiny", "--name", "away", "--wait")
    watches = quick.start("--host", "gpu1", "status", "--watch")
    until(lambda: far["gpu1"].json("status")["runs"], 60.0, "it was launched")
    sshd.cut()
    _, said = waits.communicate(timeout=30)
    assert waits.returncode == EX_UNAVAILABLE
    assert "the line to gpu1 broke: what was asked may be done there all the same" in said
    _, said = watches.communicate(timeout=30)
    assert "the line to gpu1 broke: its runs go on" in said


def test_what_a_shell_says_there_is_no_part_of_a_document(quick: Shell, far: dict[str, Shell]) -> None:
    """Of the status of one machine or of several, or of a price."""
    program = quick.cwd / "gpu1" / "mission-tui"
    program.write_text(program.read_text().replace("\n", "\necho Welcome\n", 1))
    found = quick.typed("--host", "gpu1", "--host", "gpu2", "status", "--json")
    assert [machine["error"] for machine in json.loads(found.stdout)["hosts"]] == [None, None]
    answer = hosts._Answer(0, b'Welcome\n{"runs": [{"cost": {"whole_run_s": 60.0}}]}', "")
    assert hosts._offer(answer) is not None
    alone = quick("--host", "gpu1", "status", "--json")
    assert json.loads(alone.stdout)["runs"] == []


def test_the_users_own_connection_is_shared(quick: Shell, far: dict[str, Shell], sshd: Sshd) -> None:
    """Where ssh is told to keep a master, the second verb goes through it: also when nobody new is let in."""
    awake(far["gpu1"])
    control = quick.cwd / "control"
    quick.environ["MISSION_TUI_SSH"] += f" -o ControlMaster=auto -o ControlPath={control} -o ControlPersist=60"
    try:
        assert quick("--host", "gpu1", "status").returncode == 0
        assert control.exists()
        sshd.halt()
        assert quick("--host", "gpu1", "status").returncode == 0
    finally:
        sshd.resume()
        words = [*sshd.ssh.split(), "-o", f"ControlPath={control}", "-O", "exit", "gpu1"]
        subprocess.run(words, capture_output=True, check=False, stdin=subprocess.DEVNULL)
