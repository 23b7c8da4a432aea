"""Mistakes cost one clear line: nothing is started by them and nothing is left behind."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import click
import pytest

from mission_tui.cli.options import set_option
from mission_tui.paths import runs_root
from tests.missing import search_path_without
from tests.shell import Shell

MISTAKES = [
    (("launch", "nosuch"), 2, "nosuch"),
    (("launch", "tny"), 2, "did you mean 'tiny'?"),
    (("launch",), 2, "mission-tui presets"),
    (("launch", "tiny", "--set", "ppo.n_stpes=1"), 78, "did you mean 'n_steps'?"),
    (("launch", "tiny", "--set", "ppo.batch_size=0"), 78, "batch_size"),
    (("launch", "tiny", "--set", "ppo.n_steps"), 2, "KEY=VALUE"),
    (("launch", "tiny", "--set", "env.n_envs=many"), 78, "env.n_envs"),
    (("launch", "tiny", "--name", "x" * 300), 2, "run name"),
    (("launch", "tiny", "--name", "../x"), 2, "'../x'"),
    (("launch", "tiny", "--group", "../x"), 2, "group name '../x'"),
    (("launch", "../x"), 78, "../x"),
    (("launch", "broken"), 78, "broken.toml"),
    (("launch", "--preset", "nowhere.toml"), 78, "nowhere.toml"),
    (("launch", "tiny", "-n", "0"), 2, "-n"),
    (("launch", "tiny", "--seed", "minus"), 2, "--seed"),
    (("launch", "tiny", "--seed", "1", "--seed", "2", "--seeds", "3"), 2, "--seeds"),
    (("launch", "tiny", "--seed", str(2**32 - 1), "--seeds", "2"), 2, "2 seeds from 4294967295"),
    (("bench", "tiny", "--out", "."), 2, "is a folder"),
    (("lauhcn", "tiny"), 2, "did you mean 'launch'?"),
    (("archive", "@last"), 2, "there is no verb 'archive': `rm RUN` puts it into the trash"),
    (("branch", "@last"), 2, "there is no verb 'branch': `resume RUN --branch` makes one"),
    (("label", "@last", "paper"), 2, "say +paper to put 'paper' on, or -paper to take it off"),
    (("label", "@last", "sp ace"), 2, "say +LABEL to put one on, or -LABEL to take it off"),
    (("clone", "@last", "--timesteps", "2M", "--duration", "1h"), 2, "give one of them"),
    (("clone", "@last", "--timesteps", "2M", "--exact"), 2, "leave out --set, --timesteps"),
    (("stop",), 2, "--all"),
    (("stop", "x", "--all"), 2, "not both"),
    (("metrics", "x", "--json", "--csv"), 2, "not both"),
    (("logs", "x", "--grep", "("), 2, "regular expression"),
    (("export", "x", "policy.pt"), 2, ".zip"),
    (("evaluate", "x", "--episodes", "200k"), 2, "--episodes '200k' is more than 100,000"),
    (("evaluate", "x", "--episodes", "0"), 2, "is not a whole number from 1 on"),
    (("export", "x", "no/such/folder/policy.zip"), 2, "no folder"),
    (("presets", "show", "nosuch"), 2, "nosuch"),
    (("presets", "show", "tiny", "--set", "ppo.gamma=1"), 2, "--resolved"),
    (("--nosuch",), 2, "--nosuch"),
]


@pytest.mark.parametrize(
    ("words", "code", "said"), MISTAKES, ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else None
)
def test_a_mistake_is_one_line_and_starts_nothing(shell: Shell, words: tuple[str, ...], code: int, said: str) -> None:
    """The line names what is wrong, the exit code its kind; no supervisor and no runs root come of it."""
    (shell.cwd / "presets" / "broken.toml").write_text("[env\nid = 3")
    done = shell.typed(*words)
    assert done.returncode == code, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("mission-tui: ")
    assert said in line
    assert len(line) < 500
    assert done.stdout == ""
    assert not shell.root.exists()


def test_a_mistake_is_the_same_to_a_process_of_its_own(shell: Shell) -> None:
    """One of them as a person types it: the same line, and its code is that of the process."""
    typed, done = shell.typed("launch", "nosuch"), shell("launch", "nosuch")
    assert (done.returncode, done.stdout, done.stderr) == (typed.returncode, typed.stdout, typed.stderr)
    assert shell.processes() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        ("env.id=LunarLander-v3", "pip install -c constraints.txt -e '.[envs]'"),
        ("env.id=CartPole-v9", "CartPole-v"),
        ("env.id=nowhere:Nothing-v0", "nowhere"),
        ("run.device=cuda:99", "cuda"),
    ],
)
def test_what_this_machine_cannot_carry_leaves_no_run(shell: Shell, assignment: str, said: str) -> None:
    """A missing extra, an unknown environment or a missing GPU is one line and 78; no run directory comes of it."""
    shell.environ["PYTHONPATH"] = search_path_without(("Box2D",), shell.cwd / "without-box2d")
    done = shell("launch", "tiny", "--set", assignment)
    assert done.returncode == 78, done.stderr
    (line,) = done.stderr.splitlines()
    assert said in line
    assert [path for path in shell.root.iterdir() if not path.name.startswith(".")] == []


@pytest.mark.slow
def test_of_several_presets_the_one_that_cannot_run_is_named(shell: Shell) -> None:
    """Its environment is tried last, by the supervisor, and the refusal still says whose it is."""
    (shell.cwd / "presets" / "odd.toml").write_text('extends = "tiny"\n[env]\nid = "CartPol-v1"\n')
    done = shell.typed("launch", "tiny", "odd")
    assert done.returncode == 78
    assert done.stderr.splitlines()[-1] == (
        "mission-tui: odd: env.id 'CartPol-v1' is not a registered environment; did you mean 'CartPole-v1'?"
    )


@pytest.mark.slow
def test_a_runs_root_that_cannot_be_is_refused_before_anything_starts(shell: Shell) -> None:
    """A runs root below a file is a usage error that names the option to give another."""
    (shell.cwd / "file").write_text("")
    for words in (("launch", "tiny"), ("status",)):
        done = shell("--runs-dir", "file/runs", *words)
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert "cannot be written" in line
        assert "--runs-dir" in line


def test_looking_into_a_mistyped_runs_root_makes_none(shell: Shell) -> None:
    """Exit code 2 and the nearest folder that is there; no supervisor begins. What needs no runs works."""
    (shell.cwd / "runs").mkdir()
    for word, verb in product(("ruins", "elsewhere"), (("status",), ("findings",), ("metrics", "a"), ("compare", "a"))):
        done = shell.typed("--runs-dir", word, *verb)
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert f"--runs-dir {shell.cwd / word}: there is no such folder" in line
        assert ("did you mean 'runs'?" in line) == (word == "ruins")
        assert not (shell.cwd / word).exists()
    assert shell.typed("--runs-dir", "ruins", "presets").returncode == 0


@pytest.mark.parametrize("way", ["a loop of links", "a name too long", "a path too long", "a user who is not there"])
def test_a_runs_root_that_leads_nowhere_is_one_sentence(shell: Shell, way: str) -> None:
    """Whether by option or by variable: exit code 2 and no traceback; completion offers nothing."""
    (shell.cwd / "loop").symlink_to("loop")
    roots = {"a loop of links": "loop/runs", "a name too long": "a" * 300, "a path too long": "ab/" * 2000}
    root = roots.get(way, "~nosuchuser/runs")
    shell.environ["MISSION_TUI_RUNS"] = root
    for words in (("--runs-dir", root, "status"), ("doctor",), ("paths",), ("launch", "tiny")):
        done = shell.typed(*words)
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert "the runs root cannot be" in line
        assert "--runs-dir" in line
        assert len(line) < 300
    shell.environ.update(COMP_WORDS="mission-tui stop 2", COMP_CWORD="2", _MISSION_TUI_COMPLETE="bash_complete")
    done = shell()
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_runs_root_is_refused(shell: Shell) -> None:
    """A folder without write permission is named, and stays as it was."""
    folder = shell.cwd / "locked"
    folder.mkdir(mode=0o555)
    done = shell("--runs-dir", str(folder / "runs"), "launch", "tiny")
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert list(folder.iterdir()) == []


def test_unreadable_presets_do_not_hide_the_others(shell: Shell) -> None:
    """A broken file is reported on stderr, and the list still holds the rest."""
    (shell.cwd / "presets" / "broken.toml").write_bytes(b"\xff\xfe\x00")
    done = shell("presets")
    assert done.returncode == 0
    assert "tiny" in done.stdout
    assert "broken.toml" in done.stderr


@pytest.mark.slow
def test_the_environment_names_the_runs_root(shell: Shell, tmp_path: Path) -> None:
    """`--runs-dir` wins over `MISSION_TUI_RUNS`, which wins over the working folder."""
    shell.environ["MISSION_TUI_RUNS"] = str(tmp_path / "named")
    assert shell.json("paths")["runs_root"] == str(tmp_path / "named")
    assert shell.json("--runs-dir", "given", "paths")["runs_root"] == str(tmp_path / "given")
    del shell.environ["MISSION_TUI_RUNS"]
    assert shell.json("paths")["runs_root"] == str(shell.root)


def test_logs_of_other_programs_make_no_runs_root(tmp_path: Path) -> None:
    """TensorBoard's writer puts its logs into `./runs`; one with a run of ours in it, or with nothing, is the root."""
    environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
    elsewhere, here = tmp_path / "state" / "mission-tui" / "runs", tmp_path / "runs"
    assert runs_root(None, tmp_path, environ) == elsewhere
    here.mkdir()
    (here / "lost+found").mkdir()
    assert runs_root(None, tmp_path, environ) == here
    (here / "CartPole-v1__ppo__1__1795902366").mkdir()
    assert runs_root(None, tmp_path, environ) == elsewhere
    assert runs_root("runs", tmp_path, environ) == here
    (here / "20261121-104207-cartpole-0f3a").mkdir()
    assert runs_root(None, tmp_path, environ) == here


def test_a_setting_in_another_alphabet_is_taken_in_a_locale_without_utf8() -> None:
    """Python gives such a word byte by byte then, and it was refused as no text."""
    seen: list[str] = []

    @click.command()
    @set_option
    def keep(assignments: tuple[str, ...]) -> None:
        seen.extend(assignments)

    keep.main(["--set", "env.kwargs.name=\udcc3\udca9"], standalone_mode=False)
    assert seen == ["env.kwargs.name=é"]
