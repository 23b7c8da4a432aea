"""``python -m mission_tui.trainer.checking.smoke FOLDER [ROOT]``: the spec on stdin, tried by the trainer's own parts.

After what it names was imported and one environment was checked, it is the trainer itself that runs: a run directory
in FOLDER, an attempt, a stop after the first update. So what passes here is what a launch does.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from mission_tui.errors import EX_FAILED, MissionError
from mission_tui.fleet.specs.spec import Spec
from mission_tui.ipc.replies import CheckStep, Level
from mission_tui.trainer.checking.preflight import import_all
from mission_tui.trainer.foreign_python import outside, version_line
from mission_tui.trainer.process import Say, answer, asked_spec, cap_threads


def main(arguments: list[str] | None = None) -> int:
    """Try the spec on stdin; returns the exit code of the step that failed first, else 0."""
    parser = argparse.ArgumentParser(prog="mission_tui.trainer.checking.smoke", description="Try a spec.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("root", type=Path, nargs="?", help="the runs root that keeps how fast the net is")
    asked = parser.parse_args(arguments)
    with suppress(ValueError, OSError):
        # What crashes here does so in a process of its own: nobody wants its memory on disk.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    codes: list[int] = []

    def work(say: Say) -> None:
        codes.append(Smoke(say, asked.folder, asked.root).run(asked_spec(sys.stdin.buffer.read())))
        say({"over": True})

    code = answer(work)
    return codes[0] if codes else code


class Smoke:
    """One smoke run; every step is said when it begins and when it is over."""

    def __init__(self, say: Say, folder: Path, root: Path | None = None) -> None:
        self.say, self.folder, self.root = say, folder, root
        self.exit_code = 0
        self._name, self._since = "", 0.0

    def run(self, spec: Spec) -> int:
        """All steps, up to the first one that makes the next impossible; returns the exit code."""
        if not (self._try("versions", _versions) and self._try("imports", lambda: self._imports(spec))):
            return self.exit_code
        cap_threads(spec.run.threads or 1)
        from mission_tui.trainer.building.model import describe_device
        from mission_tui.trainer.checking.smoke_attempt import SmokeAttempt, check_one

        if not self._try("device", lambda: describe_device(spec.run.device)):
            return self.exit_code
        # An environment that breaks the contract may train all the same, so the attempt is tried as well.
        self._try("env", lambda: check_one(spec, self.say))
        SmokeAttempt(self, spec).train()
        return self.exit_code

    def begin(self, name: str, doing: str) -> None:
        """Step `name` begins: `doing` is what whoever comes back from it is not told otherwise."""
        self._name, self._since = name, time.monotonic()
        self.say({"begin": name, "doing": doing})

    def end(self, level: Level, detail: str, exit_code: int = 0) -> None:
        """The step that began last is over."""
        self.exit_code = self.exit_code or exit_code
        seconds = time.monotonic() - self._since
        step = CheckStep(name=self._name, level=level, detail=detail, seconds=seconds, exit_code=exit_code)
        said = msgspec.to_builtins(step)
        self.say({"step": said.pop("name"), **said})

    def tell(self, name: str, detail: str) -> None:
        """Step `name`, which is over, has come to more than was known then."""
        self.say({"step": name, "level": "ok", "detail": detail, "seconds": 0.0, "exit_code": 0})

    def _try(self, name: str, work: Callable[[], tuple[Level, str]]) -> bool:
        self.begin(name, _DOING[name])
        try:
            level, detail = work()
        except MissionError as error:
            self.end("failed", str(error), error.exit_code)
            return False
        self.end(level, detail, EX_FAILED if level == "failed" else 0)
        return level != "failed"

    def _imports(self, spec: Spec) -> tuple[Level, str]:
        names = import_all(spec, self.say)
        # A module of the user's may come with a gymnasium or a torch that does not load, which is no fault of its own.
        self.say({"doing": "importing torch, Stable-Baselines3 and the trainer"})
        import mission_tui.trainer.training  # noqa: F401 - what it takes is tried here

        return "ok", ", ".join((*names, "torch, Stable-Baselines3 and the trainer"))


_DOING: dict[str, str] = {
    "versions": "looking for what is installed",
    "imports": "importing",
    "device": "asking torch for the device",
    "env": "making and checking one environment",
}


def _versions() -> tuple[Level, str]:
    found = outside()
    return ("note" if found else "ok"), "; ".join((version_line(), *found))


if __name__ == "__main__":
    sys.exit(main())
