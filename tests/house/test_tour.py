"""The tour is what `make tour` wrote, whole and small."""

from __future__ import annotations

import re

from tests.tour.__main__ import PICTURES, document, path
from tests.tour.scenes import SCENES

TOGETHER_BYTES = 1_300_000
"""At four sizes; packed, as a checkout is sent, they are a ninth of that."""


def test_the_tour_is_the_one_that_its_scenes_make() -> None:
    """A scene that is added, renamed or dropped asks for `make tour`."""
    assert (PICTURES.parent / "tour.md").read_text(encoding="utf-8") == document()


def test_every_scene_has_its_pictures_and_no_other_lies_about() -> None:
    """All of them together stay small."""
    expected = {path(scene, size) for scene in SCENES for size in scene.sizes}
    assert set(PICTURES.iterdir()) == expected
    assert sum(picture.stat().st_size for picture in expected) < TOGETHER_BYTES


def test_no_picture_names_what_else_runs_on_the_machine() -> None:
    """The header names other runs roots; only the empty list is to name one, and that is the tour's own."""
    neighbour = re.compile(r"also live|\+\d+ roots?|/(tmp|work|home)/")
    known = {path(scene, size): scene.lab for scene in SCENES for size in scene.sizes}
    assert {file.name for file, lab in known.items() if not lab and neighbour.search(file.read_text("utf-8"))} == set()


def test_every_scene_says_two_things_at_most_in_a_few_words() -> None:
    """A person looks at the picture."""
    assert {scene.name for scene in SCENES if not 40 < len(scene.said) < 400} == set()
