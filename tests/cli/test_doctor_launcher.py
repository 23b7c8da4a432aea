"""`doctor --launcher` where there is no cluster: what is wrong is one sentence, and nothing is left behind."""

from __future__ import annotations

import json

import pytest

from mission_tui.errors import EX_CONFIG, EX_USAGE
from mission_tui.paths import clusters_file
from tests.shell import Shell


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--launcher", "slrum"), "--launcher 'slrum' is no cluster; did you mean 'slurm'?"),
        (("--launcher", "local"), "--launcher 'local' is no cluster"),
        (("--set", "ray.gpus=1"), "--set says what is asked of a cluster: add --launcher slurm, or ray"),
        (("--launcher", "ray", "--set", "ray.gpu=1"), "unknown key ray.gpu; did you mean"),
    ],
)
def test_words_that_mean_nothing_are_refused(shell: Shell, words: tuple[str, ...], said: str) -> None:
    """With the nearest that would; nothing was tried."""
    done = shell.typed("doctor", *words)
    assert (done.returncode in (EX_USAGE, EX_CONFIG), done.stdout) == (True, "")
    assert said in done.stderr


def test_a_person_file_of_clusters_says_where_to_ask(shell: Shell) -> None:
    """Its address is asked; that nobody answers there is one sentence, and the runs root stays as it was."""
    file = clusters_file(shell.environ)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text('[ray]\naddress = "http://127.0.0.1:9"\n', encoding="ascii")
    done = shell("doctor", "--launcher", "ray", "--json")
    assert done.returncode == 1
    (check,) = json.loads(done.stdout)["checks"]
    assert (check["level"], check["detail"]) == (
        "bad",
        "Ray does not answer at http://127.0.0.1:9: Connection refused",
    )
