"""What the campaign measures, first things first, and one item of it carried out in a process of its own.

A device assert poisons its process, and a driver may hang: so each item is `python -m benchmarks.gpu.items NAME`, which
writes a sheet. What goes wrong in it becomes a row that says so.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

PARTS = {
    "right": "both engines learn on the card what they learn on a CPU, and what they leave opens elsewhere",
    "fast": "how fast, against stock SB3 on the same card, and where a CPU is faster",
    "seen": "whether the meters tell the truth: bursts, shares, memory, power; several runs on one card",
    "broken": "no memory, a device assert, a kill in a kernel, a hidden driver, odd CUDA_VISIBLE_DEVICES",
}


@dataclass(frozen=True, slots=True)
class Item:
    """One measurement: `part`.`name` is a function of `benchmarks.gpu.PART`; `most_s` is when it is given up."""

    part: str
    name: str
    most_s: int
    what: str

    @property
    def full_name(self) -> str:
        return f"{self.part}.{self.name}"


ITEMS = (
    Item("right", "numbers", 240, "parameters after 3 updates against the CPU, both engines, every kind of policy"),
    Item("right", "checkpoints", 120, "a checkpoint of one device goes on on the other; how exact a resume is on CUDA"),
    Item("right", "graphs", 120, "CUDA graphs against single kernels: not one bit apart"),
    Item("right", "modes", 180, "bf16, TF32 and compile: how far from float32 after 3 updates"),
    Item("right", "others", 150, "every other algorithm of SB3 and sb3-contrib trains on it, and goes on on a CPU"),
    Item("right", "export", 90, "an export opens in stock SB3 where CUDA is hidden"),
    Item("fast", "small_nets", 120, "16 x CartPole on the CPU and on the card, and the sentence for the user"),
    Item(
        "fast",
        "heavy",
        180,
        "`heavy` alone and four at once (goal: 2.5 x), memory, energy, SB3 beside it",
    ),
    Item("fast", "beast", 240, "the same of `beast`; the goal is 3 x of stock SB3's update"),
    Item("fast", "update", 150, "rollout and update alone: both engines, single kernels, TF32, bf16, compile"),
    Item("fast", "images", 90, "the same of SB3's net for Atari"),
    Item("fast", "fast", 150, "the same of `fast`"),
    Item("fast", "at_once", 120, "four `beast` and four `swarm` against one"),
    Item("fast", "swarm", 120, "the same of `swarm`, whose environments are stepped at once"),
    Item("seen", "load", 90, "the busy gauge and the share of a process under a kernel load that is known"),
    Item("seen", "runs", 150, "one run and two on one card: placement, memory, what a second one costs"),
    Item("seen", "mps", 180, "four runs with and without NVIDIA's Multi-Process Service"),
    Item("broken", "kill", 60, "kill -9 in the middle of a kernel: seconds until the memory is free; the goal is 2"),
    Item("broken", "memory", 120, "a real out-of-memory ends a run with a sentence that says so"),
    Item("broken", "device_assert", 60, "a device assert is called what it is"),
    Item("broken", "visible", 120, "CUDA_VISIBLE_DEVICES empty, wrong, a UUID, a MIG name"),
    Item("broken", "hidden", 60, "the driver's library hidden: `doctor` and the meters say it"),
)


TRAIN_S = 15.0
NEVER_EVALUATED = "evaluate.every=1_000_000_000"


@dataclass(frozen=True, slots=True)
class Bench:
    """Where it is measured; a `small` one only tries the code, with tiny nets."""

    device: str
    small: bool
    train_s: float = TRAIN_S

    @property
    def on_cuda(self) -> bool:
        return self.device.startswith("cuda")

    @property
    def shape(self) -> tuple[str, ...]:
        """`--set` words for every training."""
        on = (f"run.device={self.device}", NEVER_EVALUATED)
        tiny = ("env.n_envs=2", "ppo.n_steps=32", "ppo.batch_size=32", "ppo.n_epochs=1", "ppo.net_arch=[8]")
        return (*on, *tiny, "run.auto_scale=false") if self.small else on

    @property
    def at_once(self) -> int:
        """How many runs share the card where several do."""
        return 2 if self.small else 4

    @property
    def seconds(self) -> float:
        """How long each side of a comparison trains."""
        return 0.5 if self.small else self.train_s


def item_of(name: str) -> Item:
    """Raises `ValueError` for none."""
    for item in ITEMS:
        if item.full_name == name:
            return item
    raise ValueError(f"'{name}' is no item; there are: {', '.join(each.full_name for each in ITEMS)}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out one item and write its sheet; 0 also where rows say that something failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--train-seconds", type=float, default=TRAIN_S)
    parser.add_argument("--json", type=Path, required=True)
    asked = parser.parse_args(arguments)
    from benchmarks.results import Row, Sheet, asked_as, facts_of_the_card, facts_of_the_machine, write_sheet
    from benchmarks.rows import unmeasured

    item = item_of(asked.name)
    measure: Callable[[Bench], list[Row]] = getattr(importlib.import_module(f"benchmarks.gpu.{item.part}"), item.name)
    try:
        rows = measure(Bench(asked.device, asked.small, asked.train_seconds))
    except Exception as error:  # noqa: BLE001 - the edge of the process: what went wrong is a result
        traceback.print_exc()
        said = " ".join(f"{type(error).__name__}: {error}".split())[:400]
        rows = [unmeasured(item.what, "", said)]
    machine = {**facts_of_the_card(asked.device), **facts_of_the_machine()}
    write_sheet(Sheet(item.full_name, asked_as("benchmarks.gpu.items"), tuple(rows), machine=machine), asked.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
