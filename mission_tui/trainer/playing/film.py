"""``python -m mission_tui.trainer.playing.film RUN_DIR --checkpoints A,B --episodes N --seed S --out FILE``.

The same episodes by the policies of several checkpoints, side by side, as one animated file. Each is played twice:
first without pictures, to know how many steps a frame must stand for. The file is there once it is whole; a process
that is stopped before leaves nothing. Progress as JSON lines on stdout, the result as the last one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import gymnasium
import msgspec
import numpy as np
from msgspec import Struct, structs

from mission_tui.envs.state_pictures import picture_of_state
from mission_tui.errors import PresetError
from mission_tui.fleet.events.metrics import number
from mission_tui.fleet.specs.spec import EnvSpec
from mission_tui.fleet.views.played_frame import Canvas, Drawn, PlayedFrame, PlayOrder
from mission_tui.records.files.atomic import write_atomic_group
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.playing import film_pictures
from mission_tui.trainer.playing.show import text_or_frame
from mission_tui.trainer.playing.watch import Player, begin_playing, in_text
from mission_tui.trainer.process import Say, answer
from mission_tui.trainer.vec_env.build import EnvMaker

_MOST_FRAMES, _MOST_FRAMES_AN_EPISODE = 900, 300
_LONGEST = 20_000
"""Steps of an episode beyond which nothing is filmed."""
_HELD_S = 1.2
"""So long one sees how the episodes ended."""
_SLOWEST_FPS, _USUAL_FPS, _SEEN_S = 4, 20, 4
"""An episode of a few steps is shown more slowly, so that one sees it for some seconds."""
_STRIDE = 200
_PROGRESS_EVERY_S = 0.25


def main(arguments: list[str] | None = None) -> int:
    """Film; returns the exit code."""
    parser = argparse.ArgumentParser(prog="mission_tui.trainer.playing.film", description="Film episodes.")
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--checkpoints", required=True)
    parser.add_argument("--episodes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=10_000)
    parser.add_argument("--fps", type=int)
    parser.add_argument("--title", default="")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--parent", type=int, default=0)
    parsed = parser.parse_args(arguments)
    begin_playing("film", parsed.run_dir, parsed.parent)
    return answer(lambda say: _film(parsed, say))


def _film(parsed: argparse.Namespace, say: Say) -> None:
    film_pictures.check_packages(film_pictures.PACKAGES[parsed.out.suffix])
    run_dir = RunDir(parsed.run_dir.resolve())
    names = parsed.checkpoints.split(",")
    lettering = film_pictures.Lettering()
    sheet = film_pictures.Sheet(lettering, parsed.title or run_dir.id, len(names))
    progress = _Progress(say)
    with ExitStack() as stack:
        scenes = []
        for at, name in enumerate(names):
            progress(at, len(names), "loading checkpoints")
            scenes.append(stack.enter_context(_Scene(run_dir, name, sheet.canvas, lettering)))
        film = _Film(scenes, sheet, range(parsed.seed, parsed.seed + parsed.episodes), parsed.fps, progress)
        content = film_pictures.encoded(film.frames(), film.fps, parsed.out.suffix)
    # Whoever makes a film shows it to others: as readable as this user's files are.
    write_atomic_group(parsed.out.parent, {parsed.out.name: content}, 0o666)
    result = {"run": run_dir.id, "path": str(parsed.out), "bytes": len(content), "frames": film.drawn}
    said = [msgspec.to_builtins(take) for take in film.takes]
    say({"result": result | {"fps": film.fps, "steps_a_frame": film.stride, "episodes": said}})


class Take(Struct, frozen=True):
    """An episode of one checkpoint as it was played without pictures."""

    checkpoint: str
    timesteps: int
    seed: int
    episode_return: Any
    steps: int
    outcome: str | None


class _Scene:
    """A checkpoint's policy at play, its picture now and what stands around that."""

    def __init__(self, run_dir: RunDir, checkpoint: str, canvas: Canvas, lettering: film_pictures.Lettering) -> None:
        self._lettering, self._canvas = lettering, canvas
        self._seen: film_pictures.Pixels | None = None
        self._last: PlayedFrame | None = None
        self._player = Player(run_dir, checkpoint, _in_pixels, self._keep)

    def __enter__(self) -> _Scene:
        return self

    def __exit__(self, *_: object) -> None:
        self._player.close()

    @property
    def now(self) -> PlayedFrame:
        """Where the episode stands."""
        assert self._last is not None
        return self._last

    @property
    def picture(self) -> film_pictures.Pixels:
        """What is seen. Raises `PresetError` where the environment does not draw."""
        if self._seen is None or self.now.drawn == "nothing":
            raise PresetError(f"nothing to film: {self.now.note.removeprefix('no picture: ')}")
        return self._seen

    @property
    def caption(self) -> film_pictures.Caption:
        """Whose policy it is, and how far it has come."""
        now = self.now
        so_far = number(now.episode_return)
        said = "–" if so_far is None else f"{so_far:.4g}"
        below = f"return {said}  step {now.step:,}"
        if now.over:
            below += f": {now.outcome}" if now.outcome else ": over"
        return film_pictures.Caption(f"after {now.timesteps:,} steps", below, now.over)

    def begin(self, seed: int) -> None:
        """Begin the episode of `seed`."""
        self._last = self._player.play(PlayOrder(canvas=self._canvas, seed=seed % 2**32))

    def go(self, steps: int) -> None:
        """So many steps further, if it is not over."""
        while steps > 0 and not self.now.over:
            self._last = self._player.play(PlayOrder(canvas=self._canvas, steps=min(steps, 1000)))
            steps -= 1000

    def _keep(self, env: gymnasium.Env[Any, Any], drawn: Drawn, canvas: Canvas) -> str:
        said = (
            picture_of_state(env.unwrapped, canvas.columns, canvas.lines)
            if drawn == "state"
            else text_or_frame(env.render())
        )
        self._seen = self._lettering.page(said) if isinstance(said, str) else np.array(said)
        return ""


class _Film:
    """The frames of all episodes, one episode after the other, the scenes of each side by side."""

    def __init__(
        self,
        scenes: Sequence[_Scene],
        sheet: film_pictures.Sheet,
        seeds: Sequence[int],
        fps: int | None,
        progress: _Progress,
    ) -> None:
        self._scenes, self._sheet, self._seeds, self._progress = scenes, sheet, seeds, progress
        self.takes = tuple(self._played_takes())
        """Every episode, as it was played without pictures."""
        most = min(_MOST_FRAMES_AN_EPISODE, _MOST_FRAMES // len(seeds))
        longest = max(take.steps for take in self.takes)
        self.stride = max(1, -(-longest // most))
        """Steps that a frame stands for."""
        self.fps = fps or max(_SLOWEST_FPS, min(_USUAL_FPS, longest // self.stride // _SEEN_S))
        self._held = round(_HELD_S * self.fps)
        self.drawn = 0

    def frames(self) -> Iterator[film_pictures.Pixels]:
        """Each as soon as it is wanted."""
        longest = {seed: max(take.steps for take in self.takes if take.seed == seed) for seed in self._seeds}
        total = sum(-(-steps // self.stride) + 1 + self._held for steps in longest.values())
        for seed in self._seeds:
            for scene in self._scenes:
                scene.begin(seed)
            for _ in range(-(-longest[seed] // self.stride)):
                yield self._frame(total)
                for scene in self._scenes:
                    scene.go(self.stride)
            for _ in range(self._held + 1):
                yield self._frame(total)

    def _frame(self, total: int) -> film_pictures.Pixels:
        self.drawn += 1
        self._progress(self.drawn, max(total, self.drawn), "drawing")
        return self._sheet.compose([it.picture for it in self._scenes], [it.caption for it in self._scenes])

    def _played_takes(self) -> Iterator[Take]:
        """Raises `PresetError` for an episode that is too long to be filmed."""
        total = len(self._seeds) * len(self._scenes)
        for at, (seed, scene) in enumerate((seed, scene) for seed in self._seeds for scene in self._scenes):
            scene.begin(seed)
            scene.picture  # noqa: B018 - what cannot be drawn is known before anything is played
            while not scene.now.over:
                self._progress(at, total, f"playing, step {scene.now.step:,}")
                scene.go(_STRIDE)
                if scene.now.step >= _LONGEST:
                    raise PresetError(
                        f"the episode of seed {seed} has not ended within {_LONGEST:,} steps, which is too long for a "
                        "film; set a limit where the run is trained, such as env.kwargs.max_episode_steps"
                    )
            now = scene.now
            yield Take(now.checkpoint, now.timesteps, seed, now.episode_return, now.step, now.outcome)


class _Progress:
    """Says how far it is, a few times a second."""

    def __init__(self, say: Say) -> None:
        self._say, self._next_s = say, 0.0

    def __call__(self, done: int, total: int, doing: str) -> None:
        if (now_s := time.monotonic()) >= self._next_s:
            self._next_s = now_s + _PROGRESS_EVERY_S
            self._say({"done": done, "total": total, "doing": doing})


def _in_pixels(env: EnvSpec, rules: Path) -> tuple[EnvSpec, Drawn, str]:
    """`env` as its own pixels where it draws any, with all that this takes installed; else as in a terminal."""
    plain = {name: it for name, it in env.kwargs.items() if name != "render_mode"}
    drawing = structs.replace(env, kwargs={**plain, "render_mode": "rgb_array"})
    try:
        made = EnvMaker(drawing, rules)()
    except PresetError:
        return in_text(env, rules)
    try:
        made.reset(seed=0)
        if not isinstance(text_or_frame(made.render()), str):
            return drawing, "pixels", ""
    except Exception:  # noqa: BLE001, S110 - a drawing is foreign code and may raise anything; there are other ways
        pass
    finally:
        made.close()
    return in_text(env, rules)


if __name__ == "__main__":
    sys.exit(main())
