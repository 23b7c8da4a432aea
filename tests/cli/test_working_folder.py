"""What lies in the folder that a run is launched from: its own code is found there by its name, and hides nothing."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from mission_tui.cli.verbs.import_export import _say_code
from mission_tui.errors import PresetError
from mission_tui.fleet.specs.spec import EnvSpec, Spec
from mission_tui.run_module import module_words
from mission_tui.trainer.named_parts import import_named
from tests.shell import REPOSITORY, Shell
from tests.waiting import until

POISON = "raise SystemExit('a file of the working folder was loaded: ' + __name__)\n"
NAMES = ("random", "queue", "json", "typing", "torch", "numpy", "gymnasium", "msgspec", "stable_baselines3")
OWN = """
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv
gymnasium.register("Own-v0", CartPoleEnv, max_episode_steps=100)
"""
PRESET = """
description = "an environment of the working folder"
key = "2"
[env]
id = "own_envs:Own-v0"
n_envs = 2
vec = "{vec}"
{imports}
[ppo]
n_steps = 32
batch_size = 32
n_epochs = 1
[run]
total_timesteps = {steps}
"""


def poison(folder: Path) -> None:
    """Files that would take the place of what a trainer is made of, and a package in the place of ours."""
    for name in NAMES:
        (folder / f"{name}.py").write_text(POISON, encoding="ascii")
    package = folder / "mission_tui"
    for part in (package, package / "trainer", package / "envs"):
        part.mkdir()
        (part / "__init__.py").write_text(POISON, encoding="ascii")
    for module in ("trainer/__main__.py", "envs/worker.py", "__main__.py"):
        (package / module).write_text(POISON, encoding="ascii")


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("vec", ["inline", "workers"])
def test_a_folder_full_of_namesakes_trains_evaluates_and_checks(shell: Shell, vec: str) -> None:
    """`random.py`, `torch.py`, `mission_tui/` beside the code of an environment: that is loaded, and nothing else."""
    folder = shell.cwd / "work"
    folder.mkdir()
    poison(folder)
    (folder / "own_envs.py").write_text(OWN, encoding="ascii")
    (folder / "also.py").write_text("", encoding="ascii")
    preset = folder / "own.toml"
    preset.write_text(PRESET.format(vec=vec, steps=128, imports='imports = ["also"]'), encoding="ascii")
    shell.environ["MISSION_TUI_RUNS"] = str(shell.root)
    there = Shell(folder, shell.environ)
    # The client itself is not started by `-m` here: that would be the person's own word for the working folder.
    words = module_words("mission_tui")

    def call(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*words, *more], cwd=folder, env=there.environ, capture_output=True, text=True, timeout=100, check=False
        )

    launched = call("launch", str(preset), "--name", "own", "--json")
    assert launched.returncode == 0, launched.stderr
    run = json.loads(launched.stdout)["runs"][0]["id"]
    until(lambda: shell.view(run)["state"] == "ended", 60, "it has ended")
    assert shell.view(run)["outcome"] == "finished", (shell.root / run / "attempts/1/output.log").read_text()
    loaded = json.loads((shell.root / run / "attempts/1/loaded.json").read_bytes())
    assert loaded["package"] == str(REPOSITORY / "mission_tui")
    assert {name: it["file"] for name, it in loaded["modules"].items() if Path(it["file"]).is_relative_to(folder)} == {
        name: str(folder / f"{name}.py") for name in ("own_envs", "also")
    }
    assert not any(Path(it["file"]).is_relative_to(REPOSITORY / "mission_tui") for it in loaded["modules"].values())
    digest = hashlib.sha256(OWN.encode()).hexdigest()
    assert loaded["modules"]["own_envs"]["sha256"] == digest
    if vec == "inline":
        until((shell.root / run / "attempts/1/provenance.json").is_file, 30, "the provenance is recorded")
        said = call("status", run, "--provenance")
        assert f"{folder / 'own_envs.py'} (sha256 {digest[:12]})" in said.stdout
        done = call("evaluate", run, "--episodes", "1")
        assert done.returncode == 0, done.stderr
        done = call("check", str(preset))
        assert done.returncode == 0, done.stdout + done.stderr


def test_our_package_is_the_one_that_was_meant_whatever_the_path_says(tmp_path: Path) -> None:
    """A `mission_tui/` on PYTHONPATH takes nobody's place; what a task's code starts finds ours by name."""
    poison(tmp_path)
    environ = {"PATH": os.defpath, "PYTHONPATH": str(tmp_path / "elsewhere")}
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "mission_tui").rename(tmp_path / "elsewhere" / "mission_tui")
    done = subprocess.run(
        module_words("mission_tui.trainer"), cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    assert "usage: mission_tui.trainer" in done.stderr


def test_the_working_folder_is_looked_into_for_what_is_found_nowhere_else(tmp_path: Path) -> None:
    """Then it is the last on the path; `PYTHONSAFEPATH` keeps its meaning."""
    (tmp_path / "own_words.py").write_text("", encoding="ascii")
    script = (
        "import os, sys; from mission_tui.run_module import import_named\n"
        "for name in ('json.tool', 'own_words'): import_named(name); print(sys.path.count(os.getcwd()), end=' ')\n"
        "print(sys.path[-1] == os.getcwd())"
    )
    words = (sys.executable, "-P", "-c", script)
    environ = {"PYTHONPATH": str(REPOSITORY), "PATH": os.defpath}
    done = subprocess.run(words, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "0 1 True", done.stderr
    safe = {**environ, "PYTHONSAFEPATH": "1"}
    done = subprocess.run(words, cwd=tmp_path, env=safe, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, "No module named" in done.stderr) == (1, "0 ", True)


def test_what_a_library_starts_as_it_is_loaded_looks_elsewhere(tmp_path: Path) -> None:
    """glfw, which MuJoCo's environments load, asks for a version with `python -c`: a `ctypes.py` here is not asked."""
    library, folder = tmp_path / "library", tmp_path / "folder"
    library.mkdir()
    folder.mkdir()
    (folder / "ctypes.py").write_text("raise SystemExit('loaded')\n", encoding="ascii")
    asks = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import ctypes'], check=True)\n"
    (library / "bare.py").write_text(asks, encoding="ascii")
    (library / "world.py").write_text(
        f"{asks}from gymnasium.envs.classic_control import CartPoleEnv as World\n", encoding="ascii"
    )
    for module, what in (("batch", "from mission_tui.envs.mission_gym import MissionGymVector as Worlds\n"),
                         ("wrap", "from gymnasium import Wrapper as Same\n")):  # fmt: skip
        (library / f"{module}.py").write_text(asks + what, encoding="ascii")
    (library / "worlds.py").write_text(
        "import gymnasium\ngymnasium.register('World-v0', 'world:World', vector_entry_point='batch:Worlds')\n",
        encoding="ascii",
    )
    script = (
        "import os, sys\n"
        "from mission_tui.envs.channel import EnvRecipe\n"
        "from mission_tui.run_module import import_named\n"
        "import_named('bare')\n"
        "EnvRecipe('worlds:World-v0', wrappers=(('wrap:Same', {}),)).make()\n"
        "del sys.modules['world']\n"
        "from mission_tui.fleet.specs.spec import EnvSpec\n"
        "from mission_tui.trainer.named_parts import make_env, native_refusal\n"
        "make_env(EnvSpec(id='worlds:World-v0'), None, lambda made: made)\n"
        "assert native_refusal(EnvSpec(id='worlds:World-v0')) is None\n"
        "del sys.modules['batch']\n"
        "from mission_tui.trainer.state.env_proof import _maker\n"
        "_maker(EnvSpec(id='worlds:World-v0'), None, True)[1]().close()\n"
        "print(os.environ.get('PYTHONSAFEPATH'), os.getcwd() in sys.path)"
    )
    environ = {"PYTHONPATH": os.pathsep.join((str(REPOSITORY), str(library))), "PATH": os.defpath}
    words = (sys.executable, "-P", "-c", script)
    done = subprocess.run(words, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    assert done.stdout == "None False\n", done.stderr


def test_a_package_that_shipped_presets_name_is_looked_for_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `minigrid.py` of the folder is not the package that is not installed; nor is a `cv2.py`, and so on."""
    named = {name for file in (REPOSITORY / "presets").rglob("*.toml") for name in _modules_in(file)}
    assert "minigrid" in named
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [])
    for name in named:
        (tmp_path / f"{name}.py").write_text(POISON, encoding="ascii")
        monkeypatch.delitem(sys.modules, name, raising=False)
        with pytest.raises(PresetError, match=r"cannot be imported|is not installed|extra"):
            import_named(name, "env.imports")
    assert sys.path == []


def test_trust_in_a_zip_is_no_trust_in_the_code_that_its_folder_names(
    shell: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--trust` loads no module that a stranger's `args.yml` names: each has to be said again, or only logs come in."""
    folder = shell.cwd / "CartPole-v1_1"
    folder.mkdir()
    (folder / "args.yml").write_text("env: CartPole-v1\ngym_packages: [minigrid, evil]\n", encoding="ascii")
    (folder / "config.yml").write_text("env_wrapper: sly.Wrap\npolicy: MlpPolicy\nn_timesteps: 9\n", encoding="ascii")
    (folder / "monitor.csv").write_text('#{"t_start": 1.0}\nr,l,t\n9.0,9,0.1\n', encoding="ascii")
    with zipfile.ZipFile(folder / "model.zip", "w") as archive:
        archive.writestr("data", json.dumps({"n_steps": 8, "clip_range": 0.2, "n_epochs": 1, "num_timesteps": 9}))
        archive.writestr("policy.pth", b"")
    refused = shell.typed("import-run", str(folder), "--trust")
    assert refused.returncode == 2
    assert "imports evil; wrapper sly:Wrap" in refused.stderr
    assert "--set env.imports=... --set env.wrappers=..." in refused.stderr
    half = shell.typed("import-run", str(folder), "--trust", "--set", 'env.imports=["evil"]')
    assert (half.returncode, "imports" in half.stderr) == (2, False), half.stderr
    _say_code(Spec(preset="x", env=EnvSpec(imports=("ale_py", "evil"))), set(), models=False)
    assert "a clone of it would run: imports evil\n" in capsys.readouterr().err


def _modules_in(file: Path) -> set[str]:
    """The packages that the preset in `file` names, but ours and those that it cannot do without."""
    env = tomllib.loads(file.read_text(encoding="utf-8")).get("env", {})
    words = [*env.get("imports", ()), *(it if isinstance(it, str) else it["cls"] for it in env.get("wrappers", ()))]
    words += [env["id"]] if ":" in env.get("id", "") else []
    return {word.partition(":")[0].partition(".")[0] for word in words} - {"mission_tui", "gymnasium"}


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_nothing_of_somebodys_folder_is_loaded_by_a_shipped_preset(shell: Shell) -> None:
    """`msvcrt`, `gym`, `dill`: the standard library and torch ask for modules that are not installed, or are of other
    systems. A folder that has them is no place where they are found.
    """
    folder = shell.cwd / "work"
    folder.mkdir()
    loaded = shell.cwd / "loaded"
    for name in ("msvcrt", "_winapi", "nt", "org", "gym", "dill", "torchcomms", "snappy", "opt_einsum", "monkeytype"):
        text = f"open({str(loaded)!r}, 'a').write('{name} ')\nraise SystemExit('loaded')\n"
        (folder / f"{name}.py").write_text(text, encoding="ascii")
    shell.environ["MISSION_TUI_RUNS"] = str(shell.root)
    words = (*module_words("mission_tui"),)
    for call in (("check", "cartpole"), ("launch", "cartpole", "--timesteps", "600", "--wait")):
        done = subprocess.run(
            [*words, *call], cwd=folder, env=shell.environ, capture_output=True, text=True, timeout=60, check=False
        )
        assert not loaded.exists(), f"{call[0]}: {loaded.read_text()}"
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_folder_that_is_gone_costs_a_sentence(shell: Shell) -> None:
    """The shell stands in a folder that somebody removed: it is told so, without a traceback."""
    script = 'mkdir gone && cd gone && rmdir ../gone && exec "$0" "$@"'
    words = ("/bin/sh", "-c", script, *module_words("mission_tui"), "status")
    done = subprocess.run(words, cwd=shell.cwd, env=shell.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith("`cd` to another one")
    assert "Traceback" not in done.stderr
