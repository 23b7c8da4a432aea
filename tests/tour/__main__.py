"""`python -m tests.tour [--only NAME,...]` takes a picture of every screen and writes `docs/tour.md`.

The fleet is real and trains while it is looked at, so numbers differ from one tour to the next; nothing else does.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from benchmarks.fleet.lab import ROOT, Lab
from mission_tui.paths import preferences_path
from tests.e2e.terminal import Terminal
from tests.tour.fleet import settled
from tests.tour.picture import svg
from tests.tour.scenes import SCENES, Scene
from tests.waiting import until

PICTURES = ROOT / "docs" / "tour"
_UNANSWERED = ("loading the strip", "asking", "not answered yet")
HEAD = """# A tour of the screen

Made by `make tour` from a real fleet: demo presets on a small machine, one of them with a learning rate that is too
high on purpose. [cli.md](cli.md) has the same without a screen.
"""


def take(lab: Lab, scene: Scene, size: tuple[int, int]) -> None:
    """Open the program, press the keys, and keep what is seen once it stands still."""
    environ = lab.environ | scene.environ
    if scene.lab:
        environ["MISSION_TUI_RUNS"] = str(lab.root.parent.parent / scene.lab / lab.root.name)
    # Each picture is of the screen as it comes, not as the scene before it left it.
    preferences_path(environ).unlink(missing_ok=True)
    command = [sys.executable, "-m", "mission_tui", *scene.words]
    terminal = Terminal(command, cwd=ROOT, environ=environ, columns=size[0], rows=size[1], kind=scene.kind)
    try:
        terminal.shows(scene.ready if scene.words or scene.lab else "steady", 60.0)
        _stands(terminal)
        for key in scene.keys:
            terminal.press(key)
            _stands(terminal)
        terminal.shows(scene.ready, 30.0)
        _stands(terminal)
        with terminal.drawing():
            picture = svg(terminal.screen)
        path(scene, size).write_text(picture, encoding="utf-8")
    finally:
        terminal.end()


def _stands(terminal: Terminal) -> None:
    """Wait until everything is answered and two looks in a row see the same, or long enough: a fleet that learns never
    quite stands still.
    """
    seen: list[str] = []

    def unchanged() -> bool:
        time.sleep(0.15)
        seen.append(terminal.text())
        answered = not any(word in seen[-1] for word in _UNANSWERED)
        return len(seen) > 40 or (answered and len(seen) > 3 and seen[-1] == seen[-2])

    until(unchanged, 60.0, "a picture")


def path(scene: Scene, size: tuple[int, int]) -> Path:
    """Where the picture lies."""
    return PICTURES / f"{scene.name}-{size[0]}x{size[1]}.svg"


def document() -> str:
    """The tour in words and links."""
    parts = [HEAD]
    for scene in SCENES:
        parts.append(f"## {scene.title}\n\n{scene.said}\n")
        parts += [f"![{scene.title} at {w}x{h}](tour/{path(scene, (w, h)).name})\n" for w, h in scene.sizes]
    return "\n".join(parts)


def main() -> int:
    """Take the asked pictures, by default all."""
    parser = argparse.ArgumentParser(prog="python -m tests.tour")
    parser.add_argument("--only", default="", help="names of scenes, with commas between them")
    wanted = [name for name in parser.parse_args().only.split(",") if name]
    PICTURES.mkdir(exist_ok=True)
    with settled() as lab:
        for scene in SCENES:
            for size in scene.sizes if not wanted or scene.name in wanted else ():
                take(lab, scene, size)
                print(path(scene, size).name, path(scene, size).stat().st_size, "bytes", flush=True)
    (ROOT / "docs" / "tour.md").write_text(document(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
