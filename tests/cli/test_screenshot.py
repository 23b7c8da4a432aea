"""`screenshot` from a shell: a picture of the screen without a terminal, and what is refused before one is drawn."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.test_json_documents import check
from tests.shell import Shell


@pytest.mark.slow
def test_the_screen_is_drawn_without_a_terminal(quick: Shell, tmp_path: Path) -> None:
    """All runs, or one; from the files alone too. The document says where it is; what was there is replaced."""
    (run,) = quick.launch("tiny", "--name", "first")
    quick.advancing(run)
    path = tmp_path / "screen.svg"
    for words, shown in (((), " live"), (("first",), "over timesteps")):
        check("screenshot", quick.json("screenshot", *words, "--out", str(path), "--size", "120x30"))
        said = " ".join(ElementTree.parse(path).getroot().itertext())
        assert "first" in said
        assert shown in said
    done = quick("--readonly", "screenshot", "--out", str(path))
    assert (done.returncode, done.stdout.strip()) == (0, str(path)), done.stderr


def test_what_cannot_be_drawn_is_named(quick: Shell, tmp_path: Path) -> None:
    """The size, the format and the folder, before anything is asked for."""
    for words, said in (
        (("--out", str(tmp_path / "a.svg"), "--size", "9x9"), "from 40x10 to 500x200"),
        (("--out", str(tmp_path / "a.jpeg")), ".svg or .png"),
        (("--out", str(tmp_path / "no" / "a.svg")), "no folder"),
    ):
        done = quick.typed("screenshot", *words)
        assert done.returncode == 2
        assert said in done.stderr
    assert not (tmp_path / "a.svg").exists()
