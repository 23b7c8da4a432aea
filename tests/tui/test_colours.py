"""Both palettes can be read: every ink on its ground, and told apart by people who see fewer colours."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from rich.color import Color, ColorSystem
from rich.style import Style

from mission_tui.tui.drawing.colours import DARK, LIGHT, Palette
from tests.tui.fleets import ENDED, LIVE, a_fleet
from tests.tui.stage import staged
from tests.tui.test_seed_groups import SEEDS

INKS = ("ink", "bold", "quiet", "key", "live", "update", "paused", "good", "warn", "alarm")
PALETTES = pytest.mark.parametrize("palette", [DARK, LIGHT], ids=["dark", "light"])


def luminance(colour: str) -> float:
    """The relative luminance of WCAG 2.2."""
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """From 1 to 21; 4.5 is what WCAG 2.2 asks of text."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@PALETTES
def test_every_ink_can_be_read_on_its_ground_and_on_the_chosen_row(palette: Palette) -> None:
    """As text, which asks for 4.5; nearly so in the chosen row, which is bold. Lines need only be seen."""
    faint = {
        (ink, ground): round(ratio, 2)
        for ink in INKS
        for ground, least in (("ground", 4.5), ("panel", 4.5), ("chosen", 4.3))
        if (ratio := contrast(getattr(palette, ink), getattr(palette, ground))) < least
    }
    assert faint == {}
    assert contrast(palette.line, palette.ground) > 2
    assert contrast(palette.track, palette.ground) > 1.4


@PALETTES
def test_inks_stay_apart_from_the_chosen_row_with_256_and_with_16_colours(palette: Palette) -> None:
    """As `screen-256color` and `xterm` show them."""
    for system in (ColorSystem.EIGHT_BIT, ColorSystem.STANDARD):
        shown = {
            name: Color.parse(getattr(palette, name)).downgrade(system).number for name in (*INKS, "chosen", "ground")
        }
        assert {ink for ink in INKS if shown[ink] in (shown["chosen"], shown["ground"])} == set(), system


def test_the_setting_chooses_the_palette() -> None:
    """Once, for the whole program."""
    said = "from mission_tui.tui.drawing import colours as c; print(c.PALETTE is c.LIGHT, c.THEME.dark)"
    environ = os.environ | {"MISSION_TUI_THEME": "light"}
    done = subprocess.run([sys.executable, "-c", said], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]


async def test_nothing_written_has_the_colour_of_its_ground_with_16_colours() -> None:
    """Whichever run is chosen: live, paused, queued, ended or a group, as `xterm` shows it."""
    async with staged(a_fleet((*LIVE, *SEEDS, *ENDED))) as stage:
        for _ in range(len(LIVE) + 1 + len(ENDED)):
            unseen = [
                segment.text
                for strip in stage.screen._compositor.render_strips()
                for segment in strip
                if segment.text.strip() and segment.style is not None and _lost(segment.style)
            ]
            assert unseen == []
            await stage.press("down")


def _lost(style: Style) -> bool:
    ink, ground = style.color, style.bgcolor
    if ink is None or ground is None:
        return False
    return ink.downgrade(ColorSystem.STANDARD).number == ground.downgrade(ColorSystem.STANDARD).number
