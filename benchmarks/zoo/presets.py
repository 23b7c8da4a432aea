"""The RL zoo's whole table of PPO settings as presets, `presets/zoo/*.toml`, made of the values in `ppo.yml`.

`--from CHECKOUT` takes those values anew from a checkout of DLR-RM/rl-baselines3-zoo (needs PyYAML, which the extra
`search` brings); without it the presets are made of what lies here. Ids that moved on become today's. `--page` writes
the part of docs/zoo.md that says which rows were trained here. Run: python -m benchmarks.zoo.presets [--from CHECKOUT]
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from benchmarks.zoo.published import TABLE, read_published
from benchmarks.zoo.whole_table import section, with_section
from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.specs.env_ids import PLAIN_PACKAGES, package_of
from mission_tui.records.sb3_run.zoo_settings import read_yaml, tables_of_zoo

HERE = Path(__file__).resolve().parent
SETTINGS = HERE / "ppo.yml"
PRESETS = HERE.parents[1] / "presets" / "zoo"
COMMIT = "22e3ff24"
SOURCE = f"DLR-RM/rl-baselines3-zoo @ {COMMIT}, hyperparams/ppo.yml (MIT, 2019 Antonin Raffin)"

GAMES: tuple[str, ...] = (
    "Asteroids",
    "BeamRider",
    "Breakout",
    "Enduro",
    "MsPacman",
    "Pong",
    "Qbert",
    "RoadRunner",
    "Seaquest",
)
GAMES += ("SpaceInvaders",)
"""Those of the zoo's table of results; its settings are one entry for all games."""

SB3_STEPS = 2048
"""What `n_steps` is where nothing is written."""

MOVED = {
    "HumanoidStandup-v2": "HumanoidStandup-v4",
    "InvertedDoublePendulum-v2": "InvertedDoublePendulum-v4",
    "InvertedPendulum-v2": "InvertedPendulum-v4",
    "Reacher-v2": "Reacher-v4",
}
"""The bindings of the earlier ids are gone; Gymnasium makes the same task under these."""

GONE = ("MinitaurBulletEnv-v0", "MinitaurBulletDuckEnv-v0")
"""No package for Gymnasium makes them, so no preset could train them."""

_MUJOCO = re.compile(r"(Ant|HalfCheetah|Hopper|Humanoid|HumanoidStandup|Inverted\w+|Reacher|Swimmer|Walker2d)-v\d")
_BOX2D = re.compile(r"(LunarLander|BipedalWalker|CarRacing)\w*-v\d")
_VERSION = re.compile(r"-v\d+$")
_WRAPPERS: Mapping[str, str] = {
    "rl_zoo3.wrappers:FrameSkip": "mission_tui.envs.zoo_wrappers:FrameSkip",
    "rl_zoo3.wrappers:YAMLCompatResizeObservation": "mission_tui.envs.zoo_wrappers:Resized",
    "gymnasium.wrappers.transform_observation:GrayscaleObservation": "gymnasium.wrappers:GrayscaleObservation",
}
"""The zoo's own do the same as these, which need no package of it."""


@dataclass(frozen=True, slots=True)
class ZooPreset:
    """A preset as it is written: its `name`, the zoo's name of the task, the tables of its file, and what differs."""

    name: str
    zoo_env: str
    tables: dict[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The file."""
        head = (f"Source: {SOURCE}.", "Made by `make zoo-presets`; not by hand.", *self.notes)
        return "".join(f"# {line}\n" for line in head) + tomli_w.dumps(self.tables)


def zoo_presets(settings: Mapping[str, Any]) -> Iterator[ZooPreset]:
    """A preset for each task that `settings` (those of the zoo, by task) names; `atari` stands for several games."""
    for task, said in settings.items():
        if task == "default" or task in GONE:
            continue
        for zoo_env in [f"{game}NoFrameskip-v4" for game in GAMES] if task == "atari" else [task]:
            yield _preset(zoo_env, said)


def _preset(zoo_env: str, said: Mapping[str, Any]) -> ZooPreset:
    untaken: list[str] = []
    tables = tables_of_zoo(said, zoo_env, untaken)
    if untaken:
        raise UsageError("; ".join(untaken))
    env_id, needs, notes = MOVED.get(zoo_env, zoo_env), _needs(zoo_env), []
    if env_id != zoo_env:
        notes.append(f"The zoo's id is {zoo_env}; Gymnasium makes that task as {env_id}.")
    ppo = tables["ppo"]
    rollout = tables["env"]["n_envs"] * ppo.get("n_steps", SB3_STEPS)
    if ppo.get("batch_size", 0) > rollout:
        notes.append(f"The zoo's batch_size of {ppo['batch_size']} is more than a rollout, which SB3 then takes whole.")
        ppo["batch_size"] = rollout
    env: dict[str, Any] = {"id": env_id, **tables["env"]}
    if (module := package_of(env_id)) is not None:
        env["imports"] = [module]
    if "wrappers" in env:
        env["wrappers"] = [_wrapper(it) for it in env["wrappers"]]
        if zoo_env.startswith("CarRacing") or module == "ale_py":
            env["imports"] = [*env.get("imports", ()), "cv2"]
    description = f"{env_id} as tuned in the RL zoo" + (f" ({needs})" if needs else "")
    whole = {"description": description, "env": env, "ppo": ppo, "run": tables["run"]}
    return ZooPreset(preset_name(zoo_env), zoo_env, whole, tuple(notes))


def _wrapper(said: Any) -> Any:
    if isinstance(said, str):
        return _WRAPPERS.get(said, said)
    return {**said, "cls": _WRAPPERS.get(said["cls"], said["cls"])}


def _needs(env_id: str) -> str:
    """What it takes beside the plain install, for people."""
    package = package_of(env_id)
    if package in PLAIN_PACKAGES:
        return f"pip install {package}"
    if package == "ale_py" or _MUJOCO.fullmatch(env_id) or _BOX2D.fullmatch(env_id):
        return "extra `envs`"
    return ""


def preset_name(zoo_env: str) -> str:
    """`zoo-` and the task in small letters, without its version: `zoo-halfcheetah`, `zoo-ant-bullet`, `zoo-pong`."""
    plain = _VERSION.sub("", zoo_env)
    plain = plain.removesuffix("NoFrameskip").replace("MiniGrid-", "minigrid-")
    plain = re.sub(r"(.+)BulletEnv$", r"\1-bullet", plain).replace("BulletDuckEnv", "-bullet-duck")
    for tail in ("Continuous", "Hardcore"):
        plain = plain.removesuffix(tail) + (f"-{tail}" if plain.endswith(tail) else "")
    return f"zoo-{plain.lower()}"


def read_settings(path: Path = SETTINGS) -> dict[str, Any]:
    """The zoo's settings by task. Raises `MissionError`."""
    said = read_yaml(path.read_text(encoding="utf-8"))
    if not isinstance(said, dict):
        raise UsageError(f"{path}: holds no table")
    return said


def take_settings(checkout: Path) -> str:
    """The values of the zoo's own file, without its comments and with its anchors written out. Raises `UsageError`."""
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise UsageError("PyYAML is not here: pip install -c constraints.txt pyyaml") from None
    at = subprocess.run(
        ["git", "-C", str(checkout), "show", f"{COMMIT}:hyperparams/ppo.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    if at.returncode:
        raise UsageError(f"{checkout}: no checkout of the zoo with commit {COMMIT}: {at.stderr.strip()}")

    class Plain(yaml.SafeDumper):  # type: ignore[misc]
        def ignore_aliases(self, data: object) -> bool:
            return True

    said = yaml.safe_load(at.stdout)
    head = f"# Values of {SOURCE}.\n# Taken by `make zoo-presets ZOO=CHECKOUT`; not by hand.\n"
    return head + str(yaml.dump(said, Dumper=Plain, sort_keys=False, width=10_000))


def write_presets(presets: Sequence[ZooPreset], folder: Path = PRESETS) -> None:
    """Write each into `folder`, and take away what is none of them."""
    folder.mkdir(parents=True, exist_ok=True)
    for each in presets:
        (folder / f"{each.name}.toml").write_text(each.text, encoding="utf-8")
    for path in folder.glob("*.toml"):
        if path.stem not in {each.name for each in presets}:
            path.unlink()


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the presets, and the page's part about them."""
    parser = argparse.ArgumentParser(prog="benchmarks.zoo.presets", description="The zoo's settings as presets.")
    parser.add_argument("--from", dest="checkout", type=Path, help="a checkout of DLR-RM/rl-baselines3-zoo")
    parser.add_argument("--page", type=Path, help="put the table of all rows there")
    parser.add_argument("--published", type=Path, default=TABLE, help="the zoo's table of results, a CSV")
    asked = parser.parse_args(arguments)
    try:
        if asked.checkout is not None:
            SETTINGS.write_text(take_settings(asked.checkout), encoding="utf-8")
        presets = list(zoo_presets(read_settings()))
        write_presets(presets)
        print(f"{len(presets)} presets are in {PRESETS}")
        if asked.page is not None:
            known = {each.zoo_env: each for each in presets}
            said = section(read_published(asked.published), known, asked.page.with_suffix(".json"))
            text = asked.page.read_text(encoding="utf-8") if asked.page.exists() else ""
            asked.page.write_text(with_section(text, said), encoding="utf-8")
    except MissionError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
