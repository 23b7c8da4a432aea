"""A report as a page: the numbers of `compare`, nothing loaded and nothing run, however hostile a run's words are."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from msgspec import structs
from msgspec.structs import replace

from mission_tui.cli.html_markup import page, tag
from mission_tui.cli.html_report import (
    MOST_BYTES,
    ROOMS,
    Report,
    check_target,
    film_in,
    film_of,
    page_of,
    report_of,
    write_report,
)
from mission_tui.cli.tables.comparison import comparison_tables
from mission_tui.cli.verbs import compare as report_verb
from mission_tui.errors import PresetError, UsageError
from mission_tui.fleet.comparison import compare
from mission_tui.fleet.comparison_sides import Side, Trace
from mission_tui.fleet.events.findings import FailedDuty, Finding
from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.events.provenance import Origin, Provenance, Repository, SettingChange
from mission_tui.fleet.specs.spec import Spec
from mission_tui.ipc.replies import AttemptView, AuditEntry, DetailsReply
from tests.browser import CHROMIUM, chromium
from tests.cli.test_json_documents import check
from tests.fleet.recorded import SPEC
from tests.fleet.test_compare import side, spec_of
from tests.shell import Shell

HOSTILE = (
    "</script><script>document.title='run'</script>",
    '"><img src=http://127.0.0.1:9/x onerror=alert(1)>',
    "' onmouseover='alert(1)' style='background:url(//127.0.0.1:9)",
    "<a href=javascript:alert(1)>x</a><!-- ]]> --> &lt;b&gt; <base href=//evil>",
    "\x1b]8;;http://evil\x07x\x1b]8;;\x07\x9b31m\u202egnp\u2028\x00",
)


def preset_of(_name: str) -> Spec:
    """The preset as it is now."""
    return structs.replace(SPEC, ppo=structs.replace(SPEC.ppo, n_epochs=2))


def details_of(it: Side, word: str) -> DetailsReply:
    """All that can be known of a run, with `word` wherever somebody's words may stand."""
    finding = Finding(
        id="kl-1-1", rule=word, severity="critical", first_update=1, last_update=2, sentence=word, cause=word,
        advice=word, advice_set=("ppo.n_epochs=2", f"ppo.{word}={word}"), first_t=1.0, last_t=2.0, signal=word,
        evidence=({"update": 1.0, "timesteps": 1024.0, word: 1.0},),
    )  # fmt: skip
    view = structs.replace(
        it.view, name=word, preset=word.replace("/", "|"), group=word, cause=word, labels=(word,), note=word,
        env_id=word, description=word, findings=(finding,), failed_duties=(FailedDuty(word, word, 1.0),),
        origins=(Origin("imported", word, word, word),),
    )  # fmt: skip
    tree = Repository(name=word, path=word, commit=word, changed=1, diff_file=word)
    provenance = Provenance(
        t=0.0, cwd=word, python=word, python_version=word, command=word, packages={word: word},
        repositories=(tree,), machine={word: word},
    )  # fmt: skip
    entry = AuditEntry(t=1.5, what=word, detail=f"{word} {finding.id}", by=word)
    attempt = AttemptView(
        attempt=2, started_t=1.0, ended_t=None, outcome=None, cause=word, from_checkpoint=word, from_timesteps=1024
    )
    evaluation = {"checkpoint": word, "mean": word, "std": 1.0, "ci95": [word, 2.0], "episodes": 3, "policy": word}
    return DetailsReply(
        re=1, view=view, spec=structs.replace(it.spec, env=structs.replace(it.spec.env, id=word)),
        effective={"ppo": {"n_epochs": word, word: word}, "reasons": {"ppo": {"n_epochs": word}}},
        attempts=(attempt,), evaluations=(evaluation,), provenance=provenance, audit_log=(entry,),
    )  # fmt: skip


def report(word: str = "plain", runs: int = 2) -> Report:
    """A report of runs in whose every corner `word` stands."""
    its = [side(f"r{at}", [1.0, 5.0 + at, 2.0], spec_of(at, gamma=0.9 + at / 100)) for at in range(runs)]
    changes = (SettingChange((word,), 1, 1024),)
    sides = [replace(it, view=structs.replace(it.view, name=word, changes=changes)) for it in its]
    return report_of([details_of(it, word) for it in sides], {RETURN: sides}, preset_of)


class Skeleton(HTMLParser):
    """The elements of a page with the names of their attributes, and its text."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.feed(markup)

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((name, tuple(key for key, _ in attributes)))
        self.links += [value or "" for key, value in attributes if key in ("href", "src", "action", "xlink:href")]

    def handle_data(self, text: str) -> None:
        self.words.append(text)


@pytest.mark.parametrize("word", HOSTILE)
def test_no_word_of_a_run_changes_what_the_page_is_made_of(word: str) -> None:
    """The same elements with the same attributes as of a tame run, links into the page alone, and no odd character."""
    tame, hostile = (Skeleton(page_of(report(it), it, ROOMS[0], now=0.0)) for it in ("plain", word))
    assert hostile.elements == tame.elements
    assert all(link.startswith("#") for link in hostile.links)
    attributes = {name for _, names in hostile.elements for name in names}
    assert not {name for name in attributes if name.startswith("on") or name == "style"}
    assert [name for name, _ in hostile.elements].count("script") == 2
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2028]", "".join(hostile.words))


def test_markup_that_leads_out_of_the_page_cannot_be_made() -> None:
    """A link, a source, a handler or a style of an element is refused where it is made."""
    for attributes in ({"href": "http://x"}, {"src": "data:text/html,x"}, {"onclick": "x"}, {"style": "x"}):
        with pytest.raises(ValueError, match="no place in a report"):
            tag("a", "x", **attributes)


def test_a_page_says_the_numbers_of_compare() -> None:
    """Each cell of its tables is that of `compare`'s, and the last point of a curve is the last value."""
    made = report(runs=3)
    words = Skeleton(page_of(made, "x", ROOMS[0])).words
    cells = [cell for _, table in comparison_tables(made.found) for row in table.rows for cell in row if cell]
    assert cells
    assert [cell for cell in cells if cell not in words] == []
    (block,) = (word for word in words if word.startswith('[{"x":'))
    (drawn,) = json.loads(block)
    finals = [run.result.final for run in made.found.runs]
    assert [curve["y"][-1] for curve in drawn["curves"]] == finals
    assert "solved" not in "".join(words)


def test_a_page_has_no_token_that_was_given_to_a_command() -> None:
    """It is sent to anybody; the run's own folder keeps the words as they were given."""
    words = (
        "python",
        "train.py",
        "--hub=hf_abcdefghijklmnopqrstuv",
        "postgres://ada:hunter2@db/runs",
        "--n=7",
        "--password",
        "hunter2",
    )
    it = side("r", [1.0, 5.0])
    spec = structs.replace(it.spec, run=structs.replace(it.spec.run, command=words))
    told = Provenance(t=0.0, cwd="/", python="python", python_version="3", command=" ".join(words), packages={})
    details = DetailsReply(re=1, view=it.view, spec=spec, effective={}, attempts=(), evaluations=(), provenance=told)
    text = "".join(Skeleton(page_of(report_of([details], {RETURN: [it]}, preset_of), "x", ROOMS[0])).words)
    assert "--hub=***" in text
    assert "postgres://***@db/runs --n=7" in text
    assert not re.search("abcdefgh|hunter2", text)


def test_only_a_group_of_all_its_runs_is_named_at_its_head() -> None:
    """A run of no group beside two of one is not one of the group."""
    made = report(runs=3)
    assert "3 runs of group plain, as of" in "".join(Skeleton(page_of(made, "x", ROOMS[0])).words)
    *others, last = made.runs
    alone = structs.replace(last.details, view=structs.replace(last.details.view, group=""))
    mixed = dataclasses.replace(made, runs=(*others, dataclasses.replace(last, details=alone)))
    words = "".join(Skeleton(page_of(mixed, "x", ROOMS[0])).words)
    assert "3 runs, as of" in words


def test_a_finding_stands_with_what_was_done_about_it() -> None:
    """When, why, the remedy setting by setting, and the deed of the journal that names it."""
    words = "\n".join(Skeleton(page_of(report("kl"), "x", ROOMS[0])).words)
    for said in ("■ critical", "updates 1 to 2, from 1,024 timesteps on", "n_epochs", "kl kl-1-1, by kl", "3 of "):
        assert said in words
    assert "Nothing differs" not in words
    assert "Set while it trained:" in words
    assert {mark.kind for mark in report("kl").marks} == {"finding", "set", "resume"}
    for said in ("What was marked (6)", "▲ at 1,024: A kl", "◆ at 1,024: B kl", "↻ at 1,024: A attempt 2 begins"):
        assert said in words


def test_symptoms_stand_below_their_cause() -> None:
    """One story with what came of it, and one mark; what its advice undoes is not said setting by setting."""
    it = side("a", [1.0, 2.0, 3.0])
    details = details_of(it, "plain")
    (first,) = details.view.findings
    cause = structs.replace(first, sentence="you set the rate x 100", undo="back", advice="undo your change")
    symptom = structs.replace(first, id="entropy-1-2", sentence="entropy fell", first_update=2, part_of=cause.id)
    told = structs.replace(details, view=structs.replace(details.view, findings=(cause, symptom)))
    read = replace(it, view=structs.replace(it.view, findings=(cause, symptom)), findings={"critical": 1})
    made = report_of([told], {RETURN: [read]}, preset_of)
    words = Skeleton(page_of(made, "x", ROOMS[0])).words
    assert [word for word in words if word.startswith("■")] == ["■ critical"]
    assert "update 2, critical: entropy fell" in words
    assert words.count("1/1 open") == 2
    assert "undo your change" in words
    assert [mark.words for mark in made.marks if mark.kind == "finding"] == ["you set the rate x 100"]


def test_a_preset_that_is_gone_is_said() -> None:
    """The rest of the page is there."""

    def gone(name: str) -> Spec:
        raise PresetError(f"no preset '{name}'")

    it = side("a", [1.0, 2.0])
    made = report_of([details_of(it, "plain")], {RETURN: [it]}, gone)
    assert "cannot be read here: no preset 'plain'" in page_of(made, "x", ROOMS[0])


@pytest.mark.parametrize("path", ["/home/ada/secret.toml", "../a", "a.toml"])
def test_no_file_is_read_because_a_run_calls_its_preset_so(path: str) -> None:
    """A page is sent to anybody, and what is wrong with a file says what stands in it."""

    def read(name: str) -> Spec:
        raise PresetError(f"{name}: unknown key token-abc")

    it = side("a", [1.0, 2.0])
    details = details_of(it, "plain")
    details = structs.replace(details, view=structs.replace(details.view, preset=path))
    made = report_of([details], {RETURN: [it]}, read)
    assert "token-abc" not in page_of(made, "x", ROOMS[0])


def test_a_long_run_keeps_its_extremes() -> None:
    """A hundred thousand updates are a few hundred points, and the one that ran away is among their greatest."""
    values = [0.0] * 100_000
    values[54_321] = 1e6
    long = Trace(range(1, 100_001), [0.0] * 100_000, values, (), 100_000, 100_000, 1.0, frozenset({RETURN}))
    it = replace(side("a", [1.0, 2.0]), trace=long)
    made = report_of([details_of(it, "plain")], {RETURN: [it]}, preset_of)
    (curve,) = made.drawings[0].curves
    assert len(curve.x) == 400
    assert (max(curve.high), max(curve.y)) == (1e6, 4000.0)
    assert '"h":[' in page_of(made, "x", ROOMS[0])


@pytest.mark.slow
def test_many_long_runs_are_less_than_two_megabytes(tmp_path: Path) -> None:
    """64 runs with ten metrics, a journal and thirty findings each; what was left out is said."""
    wave = [float(at * 7919 % 1000) / 7 for at in range(2000)]
    long = Trace(range(1, 2001), [0.0] * 2000, wave, (), 2000, 2000, 1.0, frozenset({RETURN}))
    sides = [
        replace(side(f"r{seed}", [1.0], spec_of(seed, gamma=0.9 + seed % 8 / 100)), trace=long) for seed in range(64)
    ]
    details = []
    for it in sides:
        full = details_of(it, "a word " * 12)
        many = structs.replace(full.view, findings=full.view.findings * 30)
        details.append(structs.replace(full, view=many, audit_log=full.audit_log * 50))
    made = report_of(details, {f"{RETURN}{at or ''}": sides for at in range(10)}, preset_of, chosen=True)
    path = tmp_path / "many.html"
    size = write_report(path, made, "x", None)
    assert size == path.stat().st_size < MOST_BYTES
    assert "were left out" in path.read_text(encoding="utf-8")


def test_only_a_report_is_replaced_unasked(tmp_path: Path) -> None:
    """Somebody's own page stays; a report, or what `--replace` names, is written over; a folder is no file."""
    mine, report_file = tmp_path / "notes.html", tmp_path / "report.html"
    mine.write_text("<p>mine</p>")
    report_file.write_text(page_of(report(), "x", ROOMS[0]))
    check_target(report_file, replace=False)
    check_target(mine, replace=True)
    for path, said in ((mine, "--replace"), (tmp_path, "is a folder"), (tmp_path / "no" / "x.html", "no folder")):
        with pytest.raises(UsageError, match=said):
            check_target(path, replace=False)


def test_a_film_is_inside_the_page(tmp_path: Path) -> None:
    """By what it is, whatever it is called; what is no picture, or too large, is refused."""
    gif = tmp_path / "film.txt"
    gif.write_bytes(b"GIF89a" + b"x" * 10)
    assert 'src="data:image/gif;base64,' in film_of(gif)
    for content, said in ((b"<svg onload=alert(1)>", "no GIF"), (b"GIF89a" + b"x" * 1_000_001, "at most")):
        gif.write_bytes(content)
        with pytest.raises(UsageError, match=said):
            film_of(gif)


@contextmanager
def listening() -> Iterator[tuple[int, list[str]]]:
    """A server on loopback, and what it was asked for."""
    asked: list[str] = []

    class Asked(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *words: object) -> None:  # noqa: A002
            pass

    server = HTTPServer(("127.0.0.1", 0), Asked)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port, asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.slow
def test_a_browser_asks_nobody_and_runs_only_our_script(tmp_path: Path) -> None:
    """Even if markup of others came into a page: its policy loads nothing and runs nothing but what we wrote."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("there is no Chromium here")
    with listening() as (port, asked):
        bad = (
            f"<img src=http://127.0.0.1:{port}/img><script src=http://127.0.0.1:{port}/js></script>"
            f"<link rel=stylesheet href=http://127.0.0.1:{port}/css><iframe src=http://127.0.0.1:{port}/frame></iframe>"
            "<script>document.documentElement.lang='xx'</script><body onload=\"document.documentElement.lang='yy'\">"
        )
        made = page_of(report(bad), "x", ROOMS[0])
        path = tmp_path / "report.html"
        for markup in (made, made.replace("<main>", f"<main>{bad}", 1)):
            path.write_text(markup, encoding="utf-8")
            done = subprocess.run(
                [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
                 "--dump-dom", path.as_uri()],
                capture_output=True, text=True, timeout=50, check=False,
            )  # fmt: skip
            assert '<html lang="en">' in done.stdout
            assert 'class="cross"' in done.stdout, "our own script ran"
    assert asked == []


def test_a_run_is_written_as_a_page(quick: Shell, tmp_path: Path) -> None:
    """By its name, live or not; again over itself; the document names the file. A mistake writes nothing."""
    (run,) = quick.launch("tiny")
    quick.advancing(run)
    path = tmp_path / "run.html"
    check("report", quick.json("report", run, "--html", str(path)))
    assert run in path.read_text(encoding="utf-8")
    assert quick.typed("--readonly", "report", run, "--html", str(path)).stdout.strip() == str(path)
    wrong = quick.typed("report", run, "--html", str(tmp_path / "x.html"), "--metric", "train/nothing")
    assert (wrong.returncode, (tmp_path / "x.html").exists()) == (2, False)
    assert "they have" in wrong.stderr
    both = quick.typed("report", run, "--html", str(path), "--no-film", "--film", str(path))
    assert (both.returncode, "give one of them" in both.stderr) == (2, True)


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.skipif(importlib.util.find_spec("PIL") is None, reason="needs the extra: pip install '.[film]'")
async def test_a_report_shows_the_policy_at_play(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first and the newest checkpoint side by side; a browser draws that, asks nobody and has nothing to say. Where
    it is not wanted there is none, and where there is none the page and stderr say why in a line.
    """
    words = ("--name", "cart", "--set", "run.total_timesteps=512", "--set", "keep.checkpoint.every_steps=256")
    assert shell.preloaded()("launch", "tiny", *words, "--wait", timeout_s=120).returncode == 0
    path = tmp_path / "run.html"
    shown = shell("report", "cart", "--html", str(path), timeout_s=90)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert path.stat().st_size < MOST_BYTES
    markup = path.read_text(encoding="utf-8")
    assert "the episode of seed 10000: after 256 timesteps return " in markup
    assert "; after 512 timesteps return " in markup
    if CHROMIUM is not None:
        async with chromium("--allow-file-access-from-files") as browser:
            page = await browser.page()
            await page.open(path.as_uri())
            assert await page.value("document.querySelector('img.film').decode().then(() => true)")
            assert await page.value("document.querySelector('img.film').naturalWidth") > 300
            loaded = await page.value("performance.getEntriesByType('resource').map(it => it.name)")
            assert [it for it in loaded if not it.startswith("data:")] == []
            assert page.said == []
    assert shell.typed("report", "cart", "--html", str(path), "--no-film").stderr == ""
    assert "At play" not in path.read_text(encoding="utf-8")
    assert "--readonly starts no process" in shell.typed("--readonly", "report", "cart", "--html", str(path)).stderr
    monkeypatch.setattr(report_verb, "FILM_S", 0.1)
    late = shell.typed("report", "cart", "--html", str(path))
    assert (late.returncode, late.stderr.count("\n")) == (0, 1)
    assert "the episodes were not filmed within 0 s" in late.stderr
    assert "No film: the episodes were not filmed" in path.read_text(encoding="utf-8")


def test_a_film_gives_way_to_what_is_said_of_runs(tmp_path: Path) -> None:
    """Where a page with both would be too large, it has the line that says so instead."""
    path = tmp_path / "run.html"
    film, line = film_in(b"GIF89a" + b"x" * 1_490_000), tag("p", "No film: the page would be too large with it.")
    assert write_report(path, report(), "x", film, line) < 1_000_000
    assert "No film: the page would be too large with it." in path.read_text(encoding="utf-8")
    assert write_report(path, report(), "x", film_in(b"GIF89a" + b"x" * 1000), line)
    assert 'class="film"' in path.read_text(encoding="utf-8")


def test_a_page_is_one_document() -> None:
    """With a language, a policy that forbids all, and no other head than ours."""
    made = page("a <b> title", tag("p", "x"), "p{}", "1")
    assert made.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert "default-src 'none'" in made
    assert "<title>a &lt;b&gt; title</title>" in made


def test_one_run_is_enough_for_a_report_and_not_for_a_comparison() -> None:
    """`compare` says so."""
    with pytest.raises(UsageError, match="takes 2 to 64 runs, and these are 1"):
        compare([side("a", [1.0])], RETURN)
    assert report(runs=1).found.cohorts[0].name == "plain"
