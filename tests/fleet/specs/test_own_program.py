"""What a spec may say of a command and of whose Python it is: what is refused, and what is on record."""

from __future__ import annotations

from pathlib import Path

import pytest

from mission_tui.errors import PresetError
from mission_tui.fleet.commands import refusal
from mission_tui.fleet.specs.assignment import expand
from mission_tui.fleet.specs.preset import PresetFile, as_tables, from_tables, read_preset, resolve
from mission_tui.fleet.specs.secrecy import is_harmless, is_secret, masked, masked_words
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.views.snapshot import ABILITIES, abilities_of


def no_base(name: str) -> PresetFile:
    raise AssertionError(name)


def spec_of(run: dict[str, object], *words: str, **tables: object) -> Spec:
    """The spec of a preset file with this `run` table, changed by `--set` words."""
    preset = read_preset({"run": run, **tables}, Path("mine.toml"))
    (assignments,) = expand(words)
    return resolve(preset, no_base, assignments)


def test_a_command_needs_neither_environment_nor_budget() -> None:
    """A preset file with nothing but `[run] command` is complete."""
    spec = spec_of({"command": ["python", "train.py"]})
    assert spec.run.command == ("python", "train.py")


def test_a_commands_record_holds_what_it_obeys_alone() -> None:
    """`spec.toml` has no learning rate of a program that nobody here knows, and reads back as the same spec."""
    spec = spec_of({"command": ["true"], "env": {"A": "1"}}, "keep.restart.most=2")
    tables = as_tables(spec)
    assert {"env", "ppo"} & tables.keys() == set()
    assert "engine" not in tables["run"]
    assert from_tables(tables, "spec.toml") == spec


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("ppo.n_steps=5",), "ppo.n_steps has no effect with run.command"),
        (("env.n_envs=5",), "env.n_envs has no effect with run.command"),
        (("run.precision=bf16",), "run.precision is for the built-in trainer"),
        (("run.duration_s=5",), "`timeout 60 CMD`"),
        (("run.env.MY_TOKEN=x",), "run.env.MY_TOKEN looks like a secret"),
        (("run.env.PROXY='http://me:pw@host'",), "run.env.PROXY looks like a secret"),
        (("run.env.MISSION_TUI_RUN=x",), "run.env.MISSION_TUI_RUN is not a variable that a run may set"),
        (("run.command=['']",), "run.command must begin with a program"),
        (("run.command=[]",), "run.command must begin with a program"),
    ],
)
def test_what_means_nothing_to_a_command_is_refused(words: tuple[str, ...], sentence: str) -> None:
    """By key and with the word that said it; a secret's value is not said again."""
    with pytest.raises(PresetError) as refused:
        spec_of({"command": ["true"]}, *words)
    assert sentence in str(refused.value).split(": ", 1)[1]


def test_a_resume_command_alone_is_refused() -> None:
    """There is nothing that it could go on with."""
    with pytest.raises(PresetError, match=r"run\.resume_command goes on with what run\.command began"):
        spec_of({"resume_command": ["true"], "total_timesteps": 1}, env={"id": "CartPole-v1"})


@pytest.mark.parametrize("name", ["WANDB_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "GH_AUTH"])
def test_a_secret_is_known_by_its_name(name: str) -> None:
    """Its value is passed on and never kept."""
    assert is_secret(name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LC_PASS", "hunter2"), ("LC_GIT", "hunter2"), ("CUDA_PASS", "hunter2"), ("CUDA_TOKEN1", "hunter2"),
        ("HF_MYTOKEN", "hunter2"), ("PYTHONPASSWORD", "hunter2"), ("CONDA_ACCESSKEY", "hunter2"),
        ("XDG_COOKIE", "hunter2"), ("TORCH_THING", "hf_abcdefghijklmnopqrst"), ("CUDA_X", "AKIAIOSFODNN7EXAMPLE"),
    ],
)  # fmt: skip
def test_a_known_prefix_makes_no_secret_harmless(name: str, value: str) -> None:
    """Names of a family are on record unless the rest of the name, or the value, looks like a secret."""
    assert not is_harmless(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LC_ALL", "C.UTF-8"), ("PWD", "/home/ada"),
        ("CUDA_VISIBLE_DEVICES", "GPU-5f9a2f4e-0a51-4b0c-9b1d-2f3c4d5e6f70"),
        ("WANDB_DIR", "/home/ada/task-environments"),
        ("PYTHONPATH", "/data/sk-learn-projects"), ("HF_HOME", "/hf_home"), ("http_proxy", "proxy.uni.edu:3128"),
    ],
)  # fmt: skip
def test_what_only_resembles_a_token_stays_on_record(name: str, value: str) -> None:
    """A run is repeated with it."""
    assert is_harmless(name, value)


@pytest.mark.parametrize("name", ["PATH", "TOKENIZERS_PARALLELISM", "KEYBOARD", "CUDA_VISIBLE_DEVICES", "HF_HOME"])
def test_what_is_no_secret_stays_on_record(name: str) -> None:
    """A run that cannot be repeated because its environment was forgotten helps nobody."""
    assert not is_secret(name, "http://host/path")


@pytest.mark.parametrize(
    ("name", "value"),
    [("PATH", "/bin"), ("WANDB_MODE", "offline"), ("DATA_DIR", "/data"), ("OMP_NUM_THREADS", "4"), ("DEBUG", "1"),
     ("FAST", "true"), ("EMPTY", ""), ("LEARNING_RATE", "0.03")],
)  # fmt: skip
def test_what_says_nothing_about_a_person_may_be_written_down(name: str, value: str) -> None:
    """A restart needs it, and a reader of the run wants it."""
    assert is_harmless(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("WANDB_API_KEY", "x"), ("MY_THING", "hunter2"), ("HTTP_PROXY", "http://a:b@host"), ("PIN", "1234"),
     ("http_proxy", "ada:hunter2@proxy:3128"),
     ("TOKEN_DIR", "/x"), ("WORK_DIR", "hunter2"), ("ADMIN_PASSWORD", "1")],
)  # fmt: skip
def test_an_unknown_variable_is_taken_for_a_secret(name: str, value: str) -> None:
    """Nobody can tell a password from a word, so its name is all that is kept."""
    assert not is_harmless(name, value)


def test_a_command_can_do_nothing_but_what_processes_can() -> None:
    """Each ability that it lacks has its sentence; once it reports it has metrics."""
    spec = spec_of({"command": ["true"]})
    assert abilities_of(spec, reports=False) == ()
    assert abilities_of(spec, reports=True) == ("metrics",)
    assert all(refusal((), ability) for ability in ABILITIES)
    assert [refusal((), verb) for verb in ("stop", "kill", "freeze", "resume")] == [None] * 4
    assert [refusal(ABILITIES, ability) for ability in ABILITIES] == [None] * len(ABILITIES)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("t.py --api-key S1 --password=S2 --pw S3 -n 3", "t.py --api-key *** --password=*** --pw *** -n 3"),
        ("[t.py, --api-key, S1, --password=S2, -n, 3]", "[t.py, --api-key, ***, --password=***, -n, 3]"),
        (
            "t.py --set hub.token=S1 --dsn 'Server=x;Password=S2'",
            "t.py --set hub.token=*** --dsn 'Server=x;Password=***'",
        ),
        ("-H 'Authorization: Bearer S1abcdefgh' --token 'S2 S3'", "-H 'Authorization: Bearer ***' --token '***'"),
        ("--url https://me:S1@host/x?token=S2==&a=b", "--url https://***@host/x?token=***&a=b"),
    ],
)
def test_what_is_behind_the_name_of_a_secret_is_masked(said: str, shown: str) -> None:
    """As an option or an assignment, quoted or not, as one text or as a list of words."""
    assert masked(said) == shown


def test_counts_switches_and_places_are_shown() -> None:
    """An option that only sounds like a secret keeps its value, and so does one without any."""
    said = "--max-tokens 100000 --n_keys=12 --tokenizer gpt2 --token-file /a/b --password --verbose --use-auth true"
    assert masked(said) == said
    assert masked_words(said.split()) == said.split()
    assert masked_words(["--token", "S1", "--n", "3"]) == ["--token", "***", "--n", "3"]
