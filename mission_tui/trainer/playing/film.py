"""``python -m mission_tui.trainer.playing.film RUN_DIR --checkpoints A,B --episodes N --seed S --out FILE``.

The same episodes by the policies of several checkpoints, side by side, as one animated file. Each is played twice:
first without pictures, to know how many steps a frame must stand for. The file is there once it is whole; a process
that is stopped before leaves nothing. Progress as JSON lines on stdout, the result as the last one.

What environments draw is pixels or characters. Characters are set in the monospaced font that comes with matplotlib;
blocks and Braille dots, which it lacks or which have to meet at the edges of their cells, are drawn here. The frames
become one file in memory: GIF and WebP by Pillow, MP4 by imageio-ffmpeg's ffmpeg, all from the extra `film`. A GIF or
WebP takes 253 colours for all of its frames, so that only what moves has to be stored again; a video takes any.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import gymnasium
import msgspec
import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from mission_tui.envs.state_pictures import picture_of_state
from mission_tui.errors import MissionError, PresetError, install_words
from mission_tui.fleet.events.metrics import number
from mission_tui.fleet.specs.spec import EnvSpec
from mission_tui.fleet.views.played_frame import Canvas, Drawn, PlayedFrame, PlayOrder
from mission_tui.fleet.views.played_frame import picture as harmless_picture
from mission_tui.records.atomic import write_atomic_group
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.playing.show import text_or_frame
from mission_tui.trainer.playing.watch import Player, begin_playing, in_text
from mission_tui.trainer.process import Say, answer
from mission_tui.trainer.vec_env.build import EnvMaker

Pixels = NDArray[np.uint8]
"""(height, width, 3)."""
Colour = tuple[int, int, int]
Pair = tuple[Colour, Colour]
"""Ink and paper."""

_FONT = "mpl-data/fonts/ttf/DejaVuSansMono.ttf"
_POINTS = 14
_PAPER: Colour = (16, 18, 22)
_INK: Colour = (216, 220, 226)
_QUIET: Colour = (140, 146, 156)
_LIVE: Colour = (120, 200, 140)
_GAP = 8
_SHEET_PX = 960
_PANEL_PX = 480
_LEAST_PANEL_PX = 224
_MOST_ACROSS = 4
_DOTS = ((0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (3, 0), (3, 1))
"""Row and column of each bit of a Braille character."""
_COLOURED = Canvas(columns=1000, lines=200, colours="full")
_SHADES = {"░": 64, "▒": 128, "▓": 192}

_DRAWING = ("PIL", "matplotlib")
PACKAGES = {".gif": _DRAWING, ".webp": _DRAWING, ".mp4": (*_DRAWING, "imageio_ffmpeg")}
"""What each kind of file needs, by its suffix."""
_FIRST_COLOURS = 128
_LEVELS = (0, 64, 128, 191, 255)


class Caption(Struct, frozen=True):
    """What stands above and below a picture; `over` is whether its episode is."""

    above: str
    below: str
    over: bool = False


def check_packages(names: Sequence[str]) -> None:
    """Raise `PresetError` naming those that this Python lacks, and the line that installs them."""
    lacking = [name for name in names if importlib.util.find_spec(name) is None]
    if lacking:
        said = " and ".join({"PIL": "Pillow"}.get(name, name) for name in lacking)
        raise PresetError(f"a film needs {said}; {install_words('film')}")


class Lettering:
    """Characters as pixels: a cell is `width` x `height`."""

    def __init__(self) -> None:
        from PIL import ImageFont

        found = importlib.util.find_spec("matplotlib")
        assert found is not None
        assert found.submodule_search_locations
        self._font: Any = ImageFont.truetype(str(Path(found.submodule_search_locations[0]) / _FONT), _POINTS)
        ascent, descent = self._font.getmetrics()
        self.width, self.height = round(self._font.getlength("M")), ascent + descent
        self._masks: dict[str, NDArray[np.uint8]] = {}

    def line(self, text: str, columns: int, ink: Colour) -> Pixels:
        """`text` in `columns` cells; what is longer is cut with an ellipsis."""
        shown = text if len(text) <= columns else text[: columns - 1] + "…"
        return self._set([shown.ljust(columns)], [[(ink, _PAPER)] * columns])

    def page(self, text: str) -> Pixels:
        """Lines of text in the colours of their escape sequences; every other control is left out."""
        from rich.ansi import AnsiDecoder

        decoder = AnsiDecoder()
        lines: list[str] = []
        colours: list[list[Pair]] = []
        for decoded in map(decoder.decode_line, harmless_picture(text, _COLOURED).split("\n")):
            pairs = [(_INK, _PAPER)] * len(decoded.plain)
            for span in decoded.spans:
                pairs[span.start : span.end] = [_colours(span.style)] * (span.end - span.start)
            lines.append(decoded.plain)
            colours.append(pairs)
        wide = max(1, *map(len, lines))
        return self._set(
            [line.ljust(wide) for line in lines], [[*it, *[(_INK, _PAPER)] * (wide - len(it))] for it in colours]
        )

    def _set(self, lines: Sequence[str], colours: Sequence[Sequence[Pair]]) -> Pixels:
        """Lines of one length, with ink and paper of each cell."""
        masks = np.array([[self._mask(char) for char in line] for line in lines])
        shape = len(lines) * self.height, len(lines[0]) * self.width
        inked = masks.transpose(0, 2, 1, 3).reshape(shape)
        known = list(dict.fromkeys(pair for row in colours for pair in row))
        # What each share of ink looks like, for each pair of colours.
        shares = np.linspace(0.0, 1.0, 256)[:, None]
        looks = np.array([np.array(paper) + shares * np.subtract(ink, paper) for ink, paper in known]).astype(np.uint8)
        if len(known) == 1:
            plain: Pixels = looks[0][inked]
            return plain
        places = {pair: at for at, pair in enumerate(known)}
        of_cells = np.array([[places[pair] for pair in row] for row in colours])
        coloured: Pixels = looks[of_cells.repeat(self.height, axis=0).repeat(self.width, axis=1), inked]
        return coloured

    def _mask(self, char: str) -> NDArray[np.uint8]:
        if char not in self._masks:
            self._masks[char] = self._drawn(char)
        return self._masks[char]

    def _drawn(self, char: str) -> NDArray[np.uint8]:
        mask = np.zeros((self.height, self.width), dtype=np.uint8)
        if "\u2800" <= char <= "\u28ff":
            down, across = self.height / 4, self.width / 2
            for bit, (row, column) in enumerate(_DOTS):
                if (ord(char) - 0x2800) >> bit & 1:
                    left, right = round(column * across), round((column + 1) * across)
                    mask[round(row * down) : round((row + 1) * down), left:right] = 255
        elif char in _SHADES:
            mask[:] = _SHADES[char]
        elif char == "▀":
            mask[: self.height // 2] = 255
        elif "▁" <= char <= "█":
            mask[self.height - round(self.height * (ord(char) - 0x2580) / 8) :] = 255
        else:
            from PIL import Image, ImageDraw

            cell: Any = Image.new("L", (self.width, self.height))
            ImageDraw.Draw(cell).text((0, 0), char, font=self._font, fill=255)
            mask[:] = np.asarray(cell)
        return mask


def _colours(style: Any) -> Pair:
    ink = _INK if style.color is None or style.color.is_default else tuple(style.color.get_truecolor())
    paper = _PAPER if style.bgcolor is None or style.bgcolor.is_default else tuple(style.bgcolor.get_truecolor())
    return (paper, ink) if style.reverse else (ink, paper)


class FrameLayout:
    """How many pictures stand side by side, and how large each may be: `most_px` wide and high."""

    def __init__(self, lettering: Lettering, title: str, many: int) -> None:
        self._lettering, self._title, self._many = lettering, title, many
        rows = -(-many // _MOST_ACROSS)
        self._across = -(-many // rows)
        fair = (_SHEET_PX - (self._across + 1) * _GAP) // self._across
        self.most_px = max(_LEAST_PANEL_PX, min(_PANEL_PX, fair))
        self._box: tuple[int, int] | None = None

    @property
    def canvas(self) -> Canvas:
        """The room of a picture in characters."""
        letters = self._lettering
        return Canvas(columns=self.most_px // letters.width, lines=self.most_px * 3 // 4 // letters.height)

    def compose(self, pictures: Sequence[Pixels], captions: Sequence[Caption]) -> Pixels:
        """All pictures as they stand, each in the middle of its box. The first ones say how large the boxes are."""
        fitted = [_fitted(picture, self.most_px) for picture in pictures]
        if self._box is None:
            self._box = max(it.shape[0] for it in fitted), max(it.shape[1] for it in fitted)
        letters, (high, wide) = self._lettering, self._box
        wide = max(wide, _LEAST_PANEL_PX)
        columns = wide // letters.width
        down = -(-self._many // self._across)
        panel_high = high + 2 * letters.height + 2 * _GAP
        # Both sides are even: a video has half as many colours as pixels, to each side.
        size = letters.height + 2 * _GAP + down * panel_high, self._across * (wide + _GAP) + _GAP
        sheet = np.empty((size[0] + size[0] % 2, size[1] + size[1] % 2, 3), dtype=np.uint8)
        sheet[:] = _PAPER
        _put(sheet, letters.line(self._title, (size[1] - 2 * _GAP) // letters.width, _INK), _GAP, _GAP)
        for at, (image, caption) in enumerate(zip(fitted, captions, strict=True)):
            top = letters.height + 2 * _GAP + at // self._across * panel_high
            left = _GAP + at % self._across * (wide + _GAP)
            cut = image[:high, :wide]
            _put(sheet, letters.line(caption.above, columns, _QUIET), top, left)
            middle = top + letters.height + (high - cut.shape[0]) // 2, left + (wide - cut.shape[1]) // 2
            _put(sheet, cut, *middle)
            ink = _LIVE if caption.over else _INK
            _put(sheet, letters.line(caption.below, columns, ink), top + letters.height + high, left)
        return sheet


def _put(sheet: Pixels, picture: Pixels, top: int, left: int) -> None:
    sheet[top : top + picture.shape[0], left : left + picture.shape[1]] = picture


def _fitted(picture: Pixels, most_px: int) -> Pixels:
    """As large as fits `most_px` in its own proportions: smaller by means, larger by whole multiples."""
    from PIL import Image

    high, wide = picture.shape[:2]
    if (times := most_px // max(high, wide)) > 1:
        return picture.repeat(times, axis=0).repeat(times, axis=1)
    scale = min(1.0, most_px / wide, most_px / high)
    if scale == 1.0:
        return picture
    size = max(1, round(wide * scale)), max(1, round(high * scale))
    small: Pixels = np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.BOX))
    return small


def encoded(frames: Iterator[Pixels], fps: int, suffix: str) -> bytes:
    """The whole file. Raises `MissionError` where the encoder fails."""
    return _ENCODERS[suffix](frames, fps)


def _gif(frames: Iterator[Pixels], fps: int) -> bytes:
    # Frames of 20 ms and less are slowed down by browsers; a hundredth of a second is the unit.
    return _animated(_with_one_palette(frames), "GIF", duration=max(30, round(100 / fps) * 10), disposal=1)


def _webp(frames: Iterator[Pixels], fps: int) -> bytes:
    return _animated(_with_one_palette(frames), "WEBP", duration=round(1000 / fps), quality=80, method=3)


def _animated(frames: Iterator[Any], kind: str, **more: Any) -> bytes:
    file = BytesIO()
    next(frames).save(file, kind, save_all=True, append_images=frames, loop=0, **more)
    return file.getvalue()


def _with_one_palette(frames: Iterator[Pixels]) -> Iterator[Any]:
    """Each frame in the most frequent colours of the first, or else the nearest of an even grid of colours."""
    from PIL import Image

    palette: Any = None
    for frame in frames:
        picture = Image.fromarray(frame)
        if palette is None:
            often: Any = picture.quantize(_FIRST_COLOURS, Image.Quantize.MAXCOVERAGE).getpalette()
            even = [level for red in _LEVELS for green in _LEVELS for blue in _LEVELS for level in (red, green, blue)]
            palette = Image.new("P", (1, 1))
            palette.putpalette([*often[: 3 * _FIRST_COLOURS], *even])
        yield picture.quantize(palette=palette, dither=Image.Dither.NONE)


def _mp4(frames: Iterator[Pixels], fps: int) -> bytes:
    """H.264 in an MP4. The file is one of memory: whatever ends this process leaves nothing of it."""
    from imageio_ffmpeg import get_ffmpeg_exe

    first = next(frames)
    size = f"{first.shape[1]}x{first.shape[0]}"
    film = os.memfd_create("film.mp4")
    given = ("-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", str(fps), "-i", "-")
    made = ("-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "20", "-threads", "1", "-movflags", "+faststart")
    command = (get_ffmpeg_exe(), "-y", "-loglevel", "error", *given, *made, "-f", "mp4", f"/proc/self/fd/{film}")
    try:
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, pass_fds=(film,)
        ) as encoder:
            assert encoder.stdin is not None
            assert encoder.stderr is not None
            with suppress(BrokenPipeError):
                encoder.stdin.write(first.tobytes())
                for frame in frames:
                    encoder.stdin.write(frame.tobytes())
            with suppress(BrokenPipeError):
                encoder.stdin.close()
            said = encoder.stderr.read().decode("utf-8", "replace").strip()
        if encoder.returncode != 0:
            why = said.splitlines()[-1] if said else f"exit code {encoder.returncode}"
            raise MissionError(f"ffmpeg could not make the film: {why}")
        return Path(f"/proc/self/fd/{film}").read_bytes()
    finally:
        os.close(film)


_ENCODERS: dict[str, Callable[[Iterator[Pixels], int], bytes]] = {".gif": _gif, ".webp": _webp, ".mp4": _mp4}


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
    check_packages(PACKAGES[parsed.out.suffix])
    run_dir = RunDir(parsed.run_dir.resolve())
    names = parsed.checkpoints.split(",")
    lettering = Lettering()
    sheet = FrameLayout(lettering, parsed.title or run_dir.id, len(names))
    progress = _Progress(say)
    with ExitStack() as stack:
        scenes = []
        for at, name in enumerate(names):
            progress(at, len(names), "loading checkpoints")
            scenes.append(stack.enter_context(_Scene(run_dir, name, sheet.canvas, lettering)))
        film = _Film(scenes, sheet, range(parsed.seed, parsed.seed + parsed.episodes), parsed.fps, progress)
        content = encoded(film.frames(), film.fps, parsed.out.suffix)
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

    def __init__(self, run_dir: RunDir, checkpoint: str, canvas: Canvas, lettering: Lettering) -> None:
        self._lettering, self._canvas = lettering, canvas
        self._seen: Pixels | None = None
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
    def picture(self) -> Pixels:
        """What is seen. Raises `PresetError` where the environment does not draw."""
        if self._seen is None or self.now.drawn == "nothing":
            raise PresetError(f"nothing to film: {self.now.note.removeprefix('no picture: ')}")
        return self._seen

    @property
    def caption(self) -> Caption:
        """Whose policy it is, and how far it has come."""
        now = self.now
        so_far = number(now.episode_return)
        said = "–" if so_far is None else f"{so_far:.4g}"
        below = f"return {said}  step {now.step:,}"
        if now.over:
            below += f": {now.outcome}" if now.outcome else ": over"
        return Caption(f"after {now.timesteps:,} steps", below, now.over)

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
        sheet: FrameLayout,
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

    def frames(self) -> Iterator[Pixels]:
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

    def _frame(self, total: int) -> Pixels:
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
