"""What each run takes of the machine stands on the frame of its pane, as it went."""

from __future__ import annotations

from msgspec import structs

from mission_tui.fleet.events.processes import Usage
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.widgets.panes import OwnUse, framed, inside
from tests.tui.fleets import LIVE, NOW


def _taking(cpu: float, gpu: float | None = None) -> RunView:
    return structs.replace(LIVE[0], usage=Usage(cpu, 1 << 30, 6, 1, gpu_percent=gpu))


def _bottom(view: RunView, width: int, *use: str) -> str:
    return framed(view, inside(view, width, NOW), width, chosen=False, marked=False, use=use)[-1].text


def test_a_runs_own_use_is_drawn_as_it_went() -> None:
    """A cell for two seconds, the newest at the right; CPU always, beyond one core too, GPU where the driver tells."""
    use = OwnUse()
    for second in range(9):
        use.sample(_taking(100.0 * second / 8), NOW + second)
    assert list(use.words) == ["CPU 100% ▁▃▅▇█"]
    use.sample(_taking(400.0, 50.0), NOW + 10)
    assert list(use.words) == ["CPU 400% ▁▁▂▂▃█", "GPU 50% ▅"]
    use.sample(structs.replace(LIVE[0], usage=None), NOW + 12)
    assert not use.words


def test_the_frame_has_its_width_whatever_stands_on_it() -> None:
    """What does not fit is left out whole; without any the frame is a line."""
    view = _taking(58.0, 12.0)
    words = ("CPU 58% ▁▂▃▄▅▆▇█▁▂▃▄", "GPU 12% ▁▁▁▁▁▁▁▁▁▁▁▁")
    for width in range(10, 100):
        said = _bottom(view, width, *words)
        assert len(said) == width
        assert (said[0], said[-1]) == ("└", "┘")
        assert ("CPU" in said, "GPU" in said) == (width >= 26, width >= 49)
    assert _bottom(view, 20) == "└" + "─" * 18 + "┘"
