"""`compare` and `clone --exact` from a shell: tables, documents, the report, and what is refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.shell import Shell

pytestmark = pytest.mark.timeout(90)


def over(quick: Shell, *words: str) -> list[str]:
    """Ended runs with a few updates each, trained at once; of several, the group was ended by its name."""
    runs = quick.launch("tiny", "-j", "8", *words)
    for run in runs:
        quick.advancing(run)
    meant = runs if len(runs) == 1 else [str(quick.view(runs[0])["group"])]
    assert quick.typed("kill", *meant).stdout.split() == runs
    assert len(quick.json("wait", *meant, code=75)["runs"]) == len(runs)
    return runs


@pytest.mark.slow
def test_two_settings_are_shown_beside_each_other(quick: Shell) -> None:
    """Results with the numbers of the files, what differs by letter, and that one seed proves nothing."""
    first, second = over(quick, "--set", "ppo.gamma=0.9,0.99", "--seed", "1")
    shown = quick.typed("compare", first, second, "--threshold", "0")
    assert shown.returncode == 0, shown.stderr
    assert "settings that differ" in shown.stdout
    (gamma,) = [line.split() for line in shown.stdout.splitlines() if line.startswith("ppo.gamma")]
    assert gamma == ["ppo.gamma", "0.9", "0.99"]
    assert "1 seed of each setting: no interval" in shown.stdout
    found = quick.json("compare", first, second, "--by", "time")
    assert [run["id"] for run in found["runs"]] == [first, second]
    last = [row for row in quick.rows(first) if row["kind"] == "update"][-1]
    result = found["runs"][0]["result"]
    assert (result["timesteps"], result["final"]) == (last["timesteps"], last["metrics"]["rollout/ep_rew_mean"])
    assert (found["by"], found["settings"]) == ("time", [{"name": "ppo.gamma", "values": [0.9, 0.99]}])
    assert "curves" not in found


def test_a_report_is_files_that_can_be_sent_on(quick: Shell, tmp_path: Path) -> None:
    """Of a whole group by its name, in the order of the launch; each file opens as what it is, and the JSON has the
    curves.
    """
    runs = over(quick, "--seeds", "3")
    folder = tmp_path / "a" / "report"
    done = quick.typed("compare", str(quick.view(runs[0])["group"]), "--report", str(folder))
    assert done.returncode == 0, done.stderr
    assert "A-C" in done.stdout
    assert str(folder / "comparison.md") in done.stderr
    names = {"comparison.md", "comparison.csv", "comparison.json", "comparison.svg", "curves.csv"}
    assert {path.name for path in folder.iterdir()} == names
    kept = json.loads((folder / "comparison.json").read_bytes())
    assert [len(kept[name]) for name in ("runs", "groups", "curves", "bands")] == [3, 1, 3, 1]
    with (folder / "comparison.csv").open(encoding="utf-8", newline="") as file:
        assert [row["run"] for row in csv.DictReader(file)] == runs
    lines = ElementTree.parse(folder / "comparison.svg").findall(".//{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 4
    assert "![curves](comparison.svg)" in (folder / "comparison.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_metrics_of_a_group_are_one_table(quick: Shell) -> None:
    """Whose row it is, with which seed and settings; several runs are no document, and no table of twenty rows."""
    runs = over(quick, "--set", "ppo.gamma=0.9,0.99", "--seeds", "2")
    group = str(quick.view(runs[0])["group"])
    rows = list(csv.DictReader(quick.typed("metrics", group, "--csv").stdout.splitlines()))
    assert list(rows[0])[:6] == ["run", "name", "seed", "ppo.gamma", "update", "attempt"]
    assert list(dict.fromkeys((row["run"], row["seed"], row["ppo.gamma"]) for row in rows)) == [
        (run, seed, gamma)
        for run, seed, gamma in zip(runs, ("1", "1", "2", "2"), ("0.9", "0.99", "0.9", "0.99"), strict=True)
    ]
    assert all(row["rollout/ep_rew_mean"] for row in rows if row["update"] == "5")
    assert rows[0]["name"].startswith("gamma0.9-s1-")
    assert len(quick.json("label", group, "+swept")["runs"]) == 4
    assert {tuple(quick.view(run)["labels"]) for run in runs} == {("swept",)}
    refused = quick.typed("set", group, "ppo.n_epochs=2")
    assert (refused.returncode, "none of the 4 runs" in refused.stderr) == (2, True)
    refused = quick.typed("metrics", group)
    assert (refused.returncode, "these are 4 runs: name one, or give --csv" in refused.stderr) == (2, True)


@pytest.mark.slow
def test_mistakes_are_named_and_change_nothing(quick: Shell) -> None:
    """One line that says what to write instead, and exit code 2."""
    over(quick, "--name", "first")
    over(quick)
    mistakes = {
        ("compare", "nobody", "@last"): "no run matches",
        ("compare", "@last", "@last"): "takes two runs or more",
        ("compare", "@last", "first", "--metric", "train/nothing"): "they have rollout/ep_rew_mean",
        ("compare", "@last", "first", "--report", "/proc/report"): "cannot be made a folder",
        ("clone", "@last", "--exact", "--set", "run.seed=1"): "leave out --set, --timesteps, --duration and --weights",
        ("clone", "@last", "--yes"): "--yes belongs to --exact",
    }
    for words, said in mistakes.items():
        done = quick.typed(*words)
        assert (done.returncode, done.stdout) == (2, ""), words
        assert said in done.stderr


def test_an_exact_clone_without_a_terminal_needs_yes(quick: Shell) -> None:
    """What is no longer the same is on stderr, or in the document of a verdict, with exit code 2; `--yes` starts it."""
    (run,) = over(quick)
    (quick.root / run / "attempts" / "1" / "provenance.json").unlink(missing_ok=True)
    refused = quick.typed("clone", run, "--exact")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "provenance: not recorded -> not compared" in refused.stderr
    assert "add --yes" in refused.stderr
    (facts,) = quick.json("clone", run, "--exact", code=2)["runs"]
    assert (facts["accepted"], [change["name"] for change in facts["verdict"]["changes"]]) == (False, ["provenance"])
    started = quick.json("clone", run, "--exact", "--yes", "--name", "again")
    (made,) = started["runs"]
    assert started["notes"] == ["provenance: not recorded -> not compared"]
    assert quick.view(made["id"])["name"] == "again"
