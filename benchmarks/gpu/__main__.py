"""The campaign on a real card: `make gpu`, or `python -m benchmarks.gpu` with a Python that has a CUDA build of torch.

Parts: right, fast, seen, broken; each ends within `--seconds`. What is done stays in `--folder`, so the same command
goes on where it was left. Without a card it says what it would measure.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from benchmarks.gpu.items import ITEMS, PARTS, TRAIN_S, Bench, Item

ROOT = Path(__file__).resolve().parents[2]
NEEDED = (
    "torch",
    "stable_baselines3",
    "gymnasium",
    "msgspec",
    "safetensors",
    "psutil",
    "pynvml",
    "click",
    "tomli_w",
    "textual",
    "rich",
)
LEFT_S = 20.0
"""An item that has less than this is not begun."""


def plan(items: Sequence[Item]) -> str:
    """What would be measured, in order."""
    lines = []
    for part, what in PARTS.items():
        of = [item for item in items if item.part == part]
        if of:
            lines.append(f"{part}: {what} (at most {sum(item.most_s for item in of) / 60:.0f} min)")
            lines += [f"  {item.name:<14} {item.what}" for item in of]
    return "\n".join(lines)


def no_card() -> str:
    """Why nothing can be measured on a card here; empty where it can."""
    lacking = [name for name in NEEDED if find_spec(name) is None]
    if lacking:
        return f"{sys.executable} lacks {', '.join(lacking)}: `make gpu PYTHON=...` installs all but torch beside it"
    asked = "import torch; print(torch.cuda.device_count() if torch.cuda.is_available() else 0, torch.__version__)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        return f"torch cannot be loaded: {done.stderr.strip().splitlines()[-1]}"
    count, version = done.stdout.split()
    return "" if int(count) else f"torch {version} sees no CUDA device here, so nothing was measured"


def carry_out(item: Item, bench: Bench, file: Path, within_s: float) -> str:
    """Measure one item; returns how it went. One that is given up leaves no sheet, and is measured the next time."""
    half = file.with_suffix(".half")
    words = [sys.executable, "-m", "benchmarks.gpu.items", item.full_name, "--device", bench.device]
    words += ["--train-seconds", str(bench.train_s), "--json", str(half)]
    log = file.with_suffix(".log").open("wb")
    with log:
        begun = time.monotonic()
        process = None
        try:
            with _told_to_end_later():
                process = subprocess.Popen(
                    [*words, *(["--small"] if bench.small else [])],
                    cwd=ROOT,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE"},
                )
            code = process.wait(min(within_s, item.most_s))
        except subprocess.TimeoutExpired:
            _end(process)
            return f"given up after {time.monotonic() - begun:.0f} s; see {file.with_suffix('.log')}"
        except BaseException:
            _end(process)
            raise
    if not half.exists():
        return f"ended with exit code {code} and no sheet; see {file.with_suffix('.log')}"
    half.replace(file)
    return f"done in {time.monotonic() - begun:.0f} s"


def write_page(folder: Path, device: str, page_file: Path | None) -> str:
    """The page of the sheets of `folder`, and of those kept beside `page_file`, into both."""
    from benchmarks.gpu.page import page
    from benchmarks.results import keep_sheets, kept_sheets, read_sheets

    kept = {} if page_file is None else kept_sheets(page_file.with_suffix(".json"))
    sheets = dict(sorted((kept | read_sheets(folder)).items()))
    text = page(sheets, device)
    if folder.is_dir():
        (folder / "gpu.md").write_text(text, encoding="utf-8")
    if page_file is not None:
        page_file.write_text(text, encoding="utf-8")
        keep_sheets(sheets, page_file.with_suffix(".json"))
    return text


@contextmanager
def _told_to_end_later() -> Iterator[None]:
    """A SIGTERM counts once this is left: one that comes while an item is forked would leave it with nobody."""
    told: list[int] = []
    ends = signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, ends)
        if told:
            signal.raise_signal(signal.SIGTERM)


def _end(process: subprocess.Popen[bytes] | None) -> None:
    """By SIGTERM first, so that its lab stops its supervisor and runs."""
    if process is None:
        return
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is left of the asked parts."""
    parser = argparse.ArgumentParser(prog="benchmarks.gpu", description=__doc__)
    parser.add_argument("--parts", default=",".join(PARTS), help="of right, fast, seen, broken; items as fast.beast")
    parser.add_argument("--seconds", type=float, default=480.0, help="for each part; nothing is begun beyond")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "gpu")
    parser.add_argument("--device", default="cuda", help="cpu, with --small, only tries the campaign's own code")
    parser.add_argument("--small", action="store_true", help="tiny nets: no figure means anything")
    parser.add_argument("--train-seconds", type=float, default=TRAIN_S, help="of each side that is compared")
    parser.add_argument("--page", type=Path, help="write the page there, of the sheets kept beside it and these")
    parser.add_argument("--missing", action="store_true", help="only what the page has no figures of")
    parser.add_argument("--report", action="store_true", help="measure nothing, and write the page")
    parser.add_argument("--plan", action="store_true", help="say what would be measured, and nothing else")
    asked = parser.parse_args(arguments)
    wanted = asked.parts.split(",")
    unknown = [name for name in wanted if name not in PARTS and name not in {item.full_name for item in ITEMS}]
    if unknown:
        parser.error(f"--parts: '{unknown[0]}' is none of {', '.join(PARTS)}, nor an item")
    items = [item for item in ITEMS if item.part in wanted or item.full_name in wanted]
    if asked.missing:
        from benchmarks.results import kept_sheets

        if asked.page is None:
            parser.error("--missing: of which page? use --page docs/gpu.md")
        kept = kept_sheets(asked.page.with_suffix(".json"))
        items = [item for item in items if item.full_name not in kept]
    if asked.report:
        print(write_page(asked.folder, asked.device, asked.page))
        return 0
    why = "" if asked.device == "cpu" else no_card()
    if asked.plan or why:
        print(plan(items))
        print(f"\n{why or 'nothing was measured: --plan'}.")
        return 0
    asked.folder.mkdir(parents=True, exist_ok=True)
    # Whoever ends the campaign ends what it measures: an item has a session of its own.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    bench = Bench(asked.device, asked.small, asked.train_seconds)
    left = []
    for part in PARTS:
        deadline = time.monotonic() + asked.seconds
        for item in (each for each in items if each.part == part):
            file = asked.folder / f"{item.full_name}.json"
            rest_s = deadline - time.monotonic()
            if file.exists():
                continue
            if rest_s < LEFT_S:
                left.append(item.full_name)
                continue
            print(f"{item.full_name}: {item.what} ...", flush=True)
            how = carry_out(item, bench, file, rest_s)
            print(f"{item.full_name}: {how}", flush=True)
            if not file.exists():
                left.append(item.full_name)
    print(write_page(asked.folder, asked.device, asked.page))
    if left:
        print(f"left: {', '.join(left)}; the same command goes on")
    return 0


if __name__ == "__main__":
    sys.exit(main())
