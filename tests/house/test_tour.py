"""The tour is what `make tour` wrote, whole, small, and of the scenes as they are now."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

from tests.tour.__main__ import PICTURES, document, path
from tests.tour.scenes import SCENES

TOGETHER_BYTES = 3_500_000
"""At four sizes; packed, as a checkout is sent, they are a ninth of that."""
_TAKEN = re.compile(r"^Taken on \d{4}-\d\d-\d\d at commit [0-9a-f]{7,}\.$", re.MULTILINE)


def shown(picture: Path) -> str:
    """What stands on it, a row a line, with one blank between its pieces."""
    rows = re.findall(r"<text [^>]*>(.*?)</text>", picture.read_text(encoding="utf-8"))
    return "\n".join(unescape(" ".join(re.findall(r">([^<]+)</tspan>", row))) for row in rows)


def test_the_tour_is_the_one_that_its_scenes_make() -> None:
    """A scene that is added, renamed or dropped asks for `make tour`; the page says which commit it was taken of."""
    page = (PICTURES.parent / "tour.md").read_text(encoding="utf-8")
    (taken,) = _TAKEN.findall(page)
    assert page == document(taken)


def test_every_scene_has_its_pictures_and_no_other_lies_about() -> None:
    """All of them together stay small."""
    expected = {path(scene, size) for scene in SCENES for size in scene.sizes}
    assert set(PICTURES.iterdir()) == expected
    assert sum(picture.stat().st_size for picture in expected) < TOGETHER_BYTES


def test_every_picture_shows_what_its_scene_waits_for() -> None:
    """A scene that now leads elsewhere has stale pictures: `make tour ONLY=NAME` takes them again."""
    pairs = {path(scene, size): scene.ready.split() for scene in SCENES for size in scene.sizes}
    stale = {file.name for file, ready in pairs.items() if " ".join(ready) not in " ".join(shown(file).split())}
    assert stale == set()


def test_no_picture_names_what_else_runs_on_the_machine() -> None:
    """The header names other runs roots; only the empty list is to name one, and that is the tour's own."""
    neighbour = re.compile(r"also live|\+\d+ roots?|/(tmp|work|home)/")
    known = {path(scene, size): scene.lab for scene in SCENES for size in scene.sizes}
    assert {file.name for file, lab in known.items() if not lab and neighbour.search(file.read_text("utf-8"))} == set()


def test_every_scene_says_two_things_at_most_in_a_few_words() -> None:
    """A person looks at the picture."""
    assert {scene.name for scene in SCENES if not 40 < len(scene.said) < 400} == set()
