"""`make explore`: new examples for every property test, rounds of them, until the time is over.

The tests themselves repeat fixed examples (tests/conftest.py). Here each visit to a test is a pytest process of its
own with the profile `explore` and as many examples as its share of the round allows. What fails is kept in
`.hypothesis/`, so that the next visit begins with it, and printed as an `@example(...)` to be written above the test.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import is_hypothesis_test, settings

__all__ = ["Explored", "example_of", "explore", "main", "property_tests"]

ROOT = Path(__file__).parents[1]
# One process learns nothing new from a million draws, and remembers each of them.
MOST_EXAMPLES = 20_000
FIRST_ROUND_S = 4.0
ROUND_GROWS = 4.0
COUNTED = re.compile(r"^explored: (?P<ran>\d+) examples in (?P<seconds>[\d.]+) s$", re.MULTILINE)
# As one line or, with its arguments below each other, as many; Hypothesis remarks on arguments behind a `#`.
FALSIFYING = re.compile(
    r"^(?:E +)?(?:Falsifying example|Failing test case): \w+\(\n(?P<given>.*?)^(?:E +)?\)$", re.M | re.S
)
REMARK = re.compile(r"  # or any other generated value$|^ *# The test .*$", re.MULTILINE)


# What runs inside of pytest, as the plugin `-p tests.exploring`.


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--examples N`: so many for each property test, whatever it asks for itself."""
    parser.addoption("--examples", type=int, default=0, help="examples for each property test")


class _Counter:
    """How many examples ran, and for how long."""

    def __init__(self) -> None:
        self.ran = 0
        self.began: float | None = None

    def around(self, test: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(test)
        def counted(*args: object, **kwargs: object) -> object:
            self.began = self.began or time.monotonic()
            self.ran += 1
            return test(*args, **kwargs)

        return counted


_counter = _Counter()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let each property test run `--examples`, without a limit on its time, and count them."""
    most = config.getoption("--examples")
    for item in items:
        test: Any = getattr(item, "obj", None)
        if not is_hypothesis_test(test):
            continue
        if most:
            own: settings = test._hypothesis_internal_use_settings
            test._hypothesis_internal_use_settings = settings(own, max_examples=most)
        item.add_marker(pytest.mark.timeout(0), append=False)
        if not hasattr(test.hypothesis.inner_test, "__wrapped__"):
            test.hypothesis.inner_test = _counter.around(test.hypothesis.inner_test)


def pytest_unconfigure() -> None:
    """Say it in one line, for the process that started this one."""
    seconds = time.monotonic() - _counter.began if _counter.began else 0.0
    print(f"\nexplored: {_counter.ran} examples in {seconds:.2f} s")


# What starts those processes.


@dataclass
class Explored:
    """What became of one property test."""

    test: str
    ran: int = 0
    visits: int = 0
    seconds: float = 0.0
    failed: str = ""
    examples: list[str] = field(default_factory=list)


def property_tests(only: str = "") -> list[str]:
    """The node of every property test whose name contains `only`, each of its parameters by itself."""
    done = _pytest("--collect-only", "-q", "-m", "property", "tests")
    if done.returncode:
        raise SystemExit(f"the tests cannot be collected:\n{done.stdout}{done.stderr}")
    nodes = [line for line in done.stdout.splitlines() if "::" in line]
    return [node for node in nodes if any(part in node for part in only.split(","))]


def example_of(output: str) -> list[str]:
    """Every falsifying example that pytest's output shows, as a decorator to be written above the test."""
    found: list[str] = []
    for match in FALSIFYING.finditer(output):
        given = REMARK.sub("", re.sub(r"^E {1,3}", "", match["given"], flags=re.MULTILINE))
        example = f"@example({' '.join(line.strip() for line in given.splitlines()).strip().removesuffix(',')})"
        if example not in found:
            found.append(example)
    return found


def explore(
    tests: list[str], seconds: float, tell: Callable[[str], None], root: Path = ROOT, rounds: int | None = None
) -> list[Explored]:
    """Rounds over all tests that did not fail yet, each with a larger share of time, until `seconds` are over."""
    until = time.monotonic() + seconds
    all_explored = [Explored(test) for test in tests]
    share = FIRST_ROUND_S
    for _ in itertools.count() if rounds is None else range(rounds):
        left = [one for one in all_explored if not one.failed]
        if not left or time.monotonic() > until:
            break
        tell(f"a round of about {share:.0f} s for each of {len(left)} tests")
        for place, one in enumerate(left):
            remains = until - time.monotonic()
            if remains <= 0:
                break
            _visit(one, min(share, remains / (len(left) - place)), root)
            tell(_line(one))
        share *= ROUND_GROWS
    return all_explored


def _visit(one: Explored, share: float, root: Path) -> None:
    most = min(MOST_EXAMPLES, int(share * one.ran / one.seconds)) if one.seconds else 0
    # The first visit finds out how long an example takes.
    most = max(most, 1) if one.visits else 0
    done = _pytest(
        "--hypothesis-profile=explore", "-p", "tests.exploring", "-p", "no:cacheprovider", "-q", f"--examples={most}",
        one.test, root=root,
    )  # fmt: skip
    one.visits += 1
    if counted := COUNTED.search(done.stdout):
        one.ran += int(counted["ran"])
        one.seconds += max(float(counted["seconds"]), 0.01)
    if done.returncode:
        one.failed = done.stdout + done.stderr
        one.examples = example_of(done.stdout)


def _pytest(*args: str, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    known = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), *known))}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *args], cwd=root, env=environ, capture_output=True, text=True
    )


def _line(one: Explored) -> str:
    return f"{'FAILED' if one.failed else 'passed'} {one.ran:>8,} examples {one.seconds:>7.1f} s  {one.test}"


def _report(all_explored: list[Explored], seconds: float) -> Iterator[str]:
    ran = sum(one.ran for one in all_explored)
    yield f"explored {len(all_explored)} tests for {seconds / 60:.1f} min: {ran:,} examples"
    for one in all_explored:
        yield _line(one)
    for one in all_explored:
        if one.failed:
            yield f"\n{one.test} failed; write this above it, then mend what it shows:"
            yield from one.examples or one.failed.splitlines()[-40:]


def main() -> int:
    """Explore as the command line says; 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="make explore", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--only", default="", help="parts of names, with commas")
    asked = parser.parse_args()
    began = time.monotonic()
    tests = property_tests(asked.only)
    if not tests:
        raise SystemExit(f"no property test has '{asked.only}' in its name")
    kept = ROOT / "build" / "explored"
    all_explored = explore(tests, 60 * asked.minutes, functools.partial(print, flush=True))
    for line in _report(all_explored, time.monotonic() - began):
        print(line)
    for one in all_explored:
        if one.failed:
            kept.mkdir(parents=True, exist_ok=True)
            path = kept / f"{re.sub(r'[^A-Za-z0-9_]+', '-', one.test)[:150]}.txt"
            path.write_text(one.failed, encoding="utf-8")
            print(f"{one.test}: all of its output is in {path.relative_to(ROOT)}")
    return int(any(one.failed for one in all_explored))


if __name__ == "__main__":
    sys.exit(main())
