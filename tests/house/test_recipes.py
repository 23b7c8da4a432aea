"""The recipes of CONTRIBUTING.md: what they say is enough, done to a copy of the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "mission_tui"

A_COMMAND = {
    "fleet/commands.py": (
        "CATALOGUE: tuple[Command, ...] = (",
        'CATALOGUE: tuple[Command, ...] = (_order("nap", "f9", "rest", "Let runs rest.", frozenset({"running"})),',
    ),
    "fleet/events/journal.py": ("ActVerb = Literal[", 'ActVerb = Literal["nap", '),
    "supervisor/verbs/acts.py": ('ACTS = {"stop": stop,', 'ACTS = {"nap": pause, "stop": stop,'),
}
"""What stands in the file, and what comes in its place."""

COMMAND_IS_THERE = """
import msgspec
from click.testing import CliRunner
from mission_tui.cli.root import cli
from mission_tui.fleet.commands import objection
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import Act
from mission_tui.supervisor.verbs.acts import ACTS
from mission_tui.tui.actions import ACTIONS
from mission_tui.tui.verbs import VERBS

assert "Let runs rest." in CliRunner().invoke(cli, ["--help"]).output
assert CliRunner().invoke(cli, ["nap", "--help"]).exit_code == 0
assert [action.keys for action in ACTIONS if action.name == "nap"] == [("f9",)]
assert "nap" in VERBS and "nap" in ACTS
frozen = RunView(id="a", name="a", preset="", run_dir="", state="frozen", created_t=0.0)
assert objection("nap", frozen) == "it is frozen"
act = Act(id=1, verb="nap", runs=("a",))
assert msgspec.json.decode(msgspec.json.encode(act), type=Act) == act
"""


_LIMITS = (
    "class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, rename=_written):"
)
A_RULE = {
    "fleet/health/rules/nap.py": (
        "",
        """'''`nap`: every update is one too many.'''
from mission_tui.fleet.health.rule import Explanation, Rule

class Nap(Rule):
    id = "nap"

    def judge(self, row):
        return "warning" if row.update >= self.context.limits.nap.updates else None

    def explain(self, severity):
        return Explanation(sentence="it does not rest", cause="nobody asked it to", advice="let it rest")
""",
    ),
    "fleet/specs/thresholds.py": (
        _LIMITS,
        (
            "class NapLimits(RuleLimits, frozen=True, kw_only=True):\n    updates: Count = 3\n\n\n"
            f"{_LIMITS}\n    nap: NapLimits = NapLimits()\n"
        ),
    ),
    "health.toml": ("[grad-norm]\n", '[nap]\nupdates = 3\nact = "notify"\n\n[grad-norm]\n'),
}

RULE_IS_THERE = """
from pathlib import Path
from mission_tui.fleet.events.metrics import UpdateDone
from mission_tui.fleet.health.judge import judge_of
from mission_tui.fleet.specs.spec import EnvSpec, Spec
from mission_tui.records.preset_files import load_health_file
import mission_tui

load_health_file(Path(mission_tui.__file__).with_name("health.toml"))
judge = judge_of(Spec(preset="", env=EnvSpec(id="CartPole-v1")))
rows = [UpdateDone(n, 1, n, 100 * n, 1.0, 1.0, 1.0, 1.0, {}) for n in range(1, 9)]
found = [finding for row in rows for finding in judge.update(row)]
assert {finding.rule for finding in found} == {"nap"}, found
"""


A_METRIC = {
    "trainer/ppo/signals.py": (
        "        return metrics | self._of_gradient(",
        '        metrics["train/naps"] = 2.0\n        return metrics | self._of_gradient(',
    ),
    "../docs/signals.md": ("| `train/n_updates` |", "| `train/naps` | how often it rested |\n| `train/n_updates` |"),
}

METRIC_IS_THERE = """
from pathlib import Path
from mission_tui.tui.state.history import metric_tags
from tests.fleet.recorded import empty_store
from tests.trainer.harness import new_run, run_attempt, spec_with

ran = run_attempt(new_run(Path("20260101-000000-tiny-0000"), spec_with()))
store = empty_store()
store.add_run(ran.run_dir.id, "", None)
store.apply_all(ran.run_dir.id, ran.records())
assert store.view(ran.run_dir.id).metrics["train/naps"] == 2.0
assert "train/naps" in metric_tags(store.view(ran.run_dir.id))
document = Path("docs/signals.md").read_text("utf-8")
assert [tag for tag in ran.updates()[-1].metrics if f"`{tag}`" not in document] == []
"""

A_LAUNCHER = {
    "supervisor/launchers/moon.py": ("", (REPOSITORY / "tests/supervisor/scripted_launcher.py").read_text("utf-8")),
    "supervisor/__main__.py": (
        'LAUNCHERS: Mapping[str, Callable[[Path], Launcher]] = {"local": _local, "slurm": _slurm, "ray": _ray}',
        (
            "from mission_tui.supervisor.launchers.moon import Engine, ScriptedLauncher\n"
            'LAUNCHERS = {"local": _local, "slurm": _slurm, "ray": _ray, '
            '"moon": lambda _root: ScriptedLauncher(Engine(), "moon")}'
        ),
    ),
    "fleet/specs/spec.py": ('LAUNCHERS = ("local", "slurm", "ray")', 'LAUNCHERS = ("local", "slurm", "ray", "moon")'),
}

LAUNCHER_IS_THERE = """
import asyncio
from pathlib import Path
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.spec import LAUNCHERS, EnvSpec, RunSpec, Spec
from mission_tui.records.runs.attempt import LaunchOrder
from mission_tui.records.runs.layout import supervisor_dir
from mission_tui.supervisor import __main__ as service
from mission_tui.supervisor.runs.core import Core

assert set(LAUNCHERS) == set(service.LAUNCHERS)
spec = Spec(preset="", env=EnvSpec(id="CartPole-v1"), run=RunSpec(total_timesteps=1))
there = change(spec, ["run.launcher=moon"])

async def carried_out():
    supervisor_dir(Path.cwd()).mkdir()
    core = Core(Path.cwd(), {name: make(Path.cwd()) for name, make in service.LAUNCHERS.items()})
    launcher = core.launcher_for(there)
    run = core.run_dir("20260101-000000-far-0000")
    handle = launcher.submit(run, LaunchOrder(run=run.id, attempt=1, argv=(), cwd="/", nonce="n"), "0" * 64)
    assert (handle.launcher, launcher.can.here, core.launcher_for(spec).can.here) == ("moon", False, True)

asyncio.run(carried_out())
"""


def with_changes(folder: Path, changes: dict[str, tuple[str, str]]) -> Path:
    """A copy of the package, and of its documents, in `folder` with `changes`."""
    for room in ("mission_tui", "docs"):
        shutil.copytree(REPOSITORY / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name, (before, after) in changes.items():
        path = folder / "mission_tui" / name
        text = path.read_text(encoding="utf-8") if before else ""
        assert text.count(before) == 1, name
        path.write_text(text.replace(before, after), encoding="utf-8")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "is_there", "most"),
    [
        pytest.param(A_COMMAND, COMMAND_IS_THERE, 3, id="command"),
        pytest.param(A_RULE, RULE_IS_THERE, 3, id="rule"),
        pytest.param(A_METRIC, METRIC_IS_THERE, 2, id="metric"),
        pytest.param(A_LAUNCHER, LAUNCHER_IS_THERE, 3, id="launcher"),
    ],
)
def test_so_few_files_are_enough(tmp_path: Path, changes: dict[str, tuple[str, str]], is_there: str, most: int) -> None:
    """Of a command key, hint, menus, help, word and request come from its row; a rule is found by its place; a metric
    is in lists and charts once it is in a row; a launcher is one module, its word, and the line that makes it.
    """
    folder = with_changes(tmp_path, changes)
    environ = {**os.environ, "PYTHONPATH": f"{folder}:{REPOSITORY}", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", is_there], env=environ, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(changes) <= most
