"""`python -m tests.tour [--only NAME,...]` takes a picture of every screen and writes `docs/tour.md`.

The fleet is real and trains while it is looked at, so numbers differ from one tour to the next; nothing else does.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.fleet.lab import ROOT, Lab
from mission_tui.paths import preferences_path, socket_dir
from tests.e2e.terminal import Terminal
from tests.tour.fleet import settled
from tests.tour.picture import svg
from tests.tour.scenes import SCENES, Scene
from tests.waiting import until

PICTURES = ROOT / "docs" / "tour"
WAIT = "wait:"
SHOWN = (80, 24)
"""The size that the page shows; it links to the others."""
AT_ONCE = 3
"""Most of a picture's time is waiting, and two cores draw that many in it."""
PATIENCE_S = 120.0
_HIDDEN = "MISSION_TOUR_ALONE"
_UNANSWERED = ("loading the strip", "asking", "not answered yet")
HEAD = """# A tour of the screen

Made by `make tour` from a real fleet: demo presets on a small machine, one of them with a learning rate that is too
high on purpose. [cli.md](cli.md) has the same without a screen.
"""


def take(lab: Lab, scene: Scene, size: tuple[int, int]) -> str:
    """Open the program, press the keys, and draw what is seen once it stands still."""
    environ = lab.environ | scene.environ
    if scene.lab:
        environ["MISSION_TUI_RUNS"] = str(lab.root.parent.parent / scene.lab / lab.root.name)
    with tempfile.TemporaryDirectory(dir=lab.root.parent) as folder:
        # Each picture is of the screen as it comes, not as another scene left it or has it at the moment.
        shutil.copytree(environ["XDG_STATE_HOME"], folder, dirs_exist_ok=True, ignore_dangling_symlinks=True)
        environ["XDG_STATE_HOME"] = folder
        preferences_path(environ).unlink(missing_ok=True)
        return _take(scene, size, environ)


def _take(scene: Scene, size: tuple[int, int], environ: dict[str, str]) -> str:
    command = [sys.executable, "-m", "mission_tui", *scene.words]
    terminal = Terminal(command, cwd=ROOT, environ=environ, columns=size[0], rows=size[1], kind=scene.kind)
    try:
        terminal.shows(scene.ready if scene.words or scene.lab else "steady", PATIENCE_S)
        _stands(terminal)
        for key in scene.keys:
            if key.startswith(WAIT):
                terminal.shows(key.removeprefix(WAIT), PATIENCE_S)
            else:
                terminal.press(key)
            _stands(terminal)
        terminal.shows(scene.ready, PATIENCE_S)
        _stands(terminal)
        with terminal.drawing():
            return svg(terminal.screen)
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


def document(taken: str) -> str:
    """The tour in words and links: a picture of each scene, and where its other sizes are. `taken` says when."""
    parts = [HEAD, f"{taken}\n"]
    for scene in SCENES:
        shown = SHOWN if SHOWN in scene.sizes else scene.sizes[0]
        others = [f"[{w}x{h}](tour/{path(scene, (w, h)).name})" for w, h in scene.sizes if (w, h) != shown]
        parts.append(f"## {scene.title}\n\n{scene.said}\n")
        parts.append(f"![{scene.title} at {shown[0]}x{shown[1]}](tour/{path(scene, shown).name})\n")
        if others:
            parts.append(f"Also at {', '.join(others)}.\n")
    return "\n".join(parts)


def taken_now() -> str:
    """Of which commit the pictures are, and of which day."""
    commit = subprocess.run(
        ["git", "log", "-1", "--format=%h"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()
    return f"Taken on {time.strftime('%Y-%m-%d', time.gmtime())} at commit {commit}."


def _alone() -> None:
    """Begin again where other runs roots of this machine are not seen, if this user may arrange that (root may)."""
    if os.environ.get(_HIDDEN) or os.geteuid() != 0 or shutil.which("unshare") is None:
        return
    roots = socket_dir(ROOT).parent
    roots.mkdir(mode=0o700, exist_ok=True)
    again = shlex.join([sys.executable, "-m", "tests.tour", *sys.argv[1:]])
    command = f"mount -t tmpfs -o mode=700 tmpfs {shlex.quote(str(roots))} && exec {again}"
    os.environ[_HIDDEN] = "1"
    os.execvp("unshare", ["unshare", "--mount", "sh", "-c", command])


def main() -> int:
    """Take the asked pictures, by default all. Returns 1 where one could not be taken, after all others."""
    parser = argparse.ArgumentParser(prog="python -m tests.tour")
    parser.add_argument("--only", default="", help="names of scenes, with commas between them")
    wanted = [name for name in parser.parse_args().only.split(",") if name]
    asked = [(scene, size) for scene in SCENES if not wanted or scene.name in wanted for size in scene.sizes]
    _alone()
    taken: dict[Path, str] = {}
    missed = 0
    with settled() as lab, ThreadPoolExecutor(AT_ONCE) as pool:
        for (scene, size), done in [(it, pool.submit(take, lab, *it)) for it in asked]:
            file = path(scene, size)
            if (error := done.exception()) is None:
                taken[file] = done.result()
                print(file.name, len(taken[file].encode()), "bytes", flush=True)
            else:
                missed += 1
                print(file.name, "not taken:", error, file=sys.stderr, flush=True)
    # Only now: a file of the checkout that changes meanwhile would be told as other code than a run began with.
    PICTURES.mkdir(exist_ok=True)
    for file, picture in taken.items():
        file.write_text(picture, encoding="utf-8")
    if not missed and not wanted:
        for file in set(PICTURES.iterdir()) - {path(*it) for it in asked}:
            file.unlink()
    (PICTURES.parent / "tour.md").write_text(document(taken_now()), encoding="utf-8")
    return min(missed, 1)


if __name__ == "__main__":
    sys.exit(main())
