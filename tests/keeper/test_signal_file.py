"""Where no signal reaches a keeper, a word in a file of its attempt does what one would."""

from __future__ import annotations

import pytest

from mission_tui.errors import EX_RESUMABLE
from mission_tui.records.runs.attempt import read_exit
from tests.keeper.conftest import KeptRun
from tests.waiting import until

SAVES = """
signal.signal(signal.SIGTERM, lambda *_: (Path("saved").touch(), sys.exit(0)))
ready()
wait_for_ever()
"""


@pytest.mark.parametrize(("word", "asked", "saved"), [("TERM", "term", True), ("QUIT", "quit", False)])
def test_the_word_in_the_file_is_as_good_as_the_signal(kept: KeptRun, word: str, asked: str, saved: bool) -> None:
    """TERM has the trainer save, QUIT leaves nobody; what is no such word is passed over."""
    folder = kept.order(SAVES)
    keeper = kept.keep(1, "CUDA_VISIBLE_DEVICES")
    until((kept.run.path / "ready").exists, what="stub trainer ready")
    folder.signal.write_text("HUP\n", encoding="ascii")
    with pytest.raises(Exception, match="timed out"):
        keeper.wait(1.2)
    folder.signal.write_text(f"{word}\n", encoding="ascii")
    keeper.wait(10)
    ended = read_exit(folder.exit)
    assert ended is not None
    assert (ended.asked, (kept.run.path / "saved").exists()) == (asked, saved)


def test_a_keeper_that_comes_after_the_word_does_nothing(kept: KeptRun) -> None:
    """Its run was taken from the queue, and nobody waits for it: it starts nothing and writes nothing."""
    folder = kept.order()
    folder.signal.write_text("TERM\n", encoding="ascii")
    assert kept.keep(1, "CUDA_VISIBLE_DEVICES").wait(10) == EX_RESUMABLE
    assert not folder.exit.exists()
    assert not folder.identity.exists()
