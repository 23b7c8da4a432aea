"""A supervisor for tests of the screen: realistic snapshots, and a record of every request it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeVar, cast

from msgspec import structs

from mission_tui.errors import MissionError, NoSupervisorError
from mission_tui.fleet.capacity.demand import Cost, ReferenceSpeed
from mission_tui.fleet.history.series import EPISODES
from mission_tui.fleet.resume.verdict import Change, ResumeVerdict
from mission_tui.fleet.search import Confirmation, SearchResult, SearchTrial
from mission_tui.fleet.specs.spec import EnvSpec, LaunchItem, PpoSpec, RunSpec, Spec, is_driver
from mission_tui.fleet.views.played_frame import ActionHead, PixelPicture, PlayedFrame, PlayOrder
from mission_tui.fleet.views.snapshot import FleetSnapshot, RunView
from mission_tui.ipc import replies, requests
from mission_tui.ipc.replies import CheckFigures, CheckStep, OperatorReply, Progress
from mission_tui.ipc.requests import AnsweredBy, Request
from tests.tui.fleets import NOW
from tests.tui.strips import a_strip

Answer = TypeVar("Answer")
Respond = Callable[[Any], OperatorReply]

FEWER_EPOCHS = ResumeVerdict(
    "note", (Change("ppo.n_epochs", "20", "10", "note", "half as many gradient steps per update: smaller steps"),)
)

A_SEARCH = SearchResult(
    group="cart-3f9a", preset="cartpole", metric="rollout/ep_rew_mean", minimize=False, wanted=40, best=2,
    keys=("ppo.learning_rate", "ppo.n_epochs"),
    trials=(
        SearchTrial(
            number=0, state="pruned", value=21.3, at=0.34, why="pruned",
            settings={"ppo.learning_rate": "2.05e-05", "ppo.n_epochs": "9"},
        ),
        SearchTrial(number=1, state="failed", settings={"ppo.learning_rate": "0.5", "ppo.n_epochs": "4"}, why="nan"),
        SearchTrial(
            number=2, state="finished", value=487.2,
            settings={"ppo.learning_rate": "0.00083", "ppo.n_epochs": "16"},
        ),
        SearchTrial(number=3, state="running", settings={"ppo.learning_rate": "0.001", "ppo.n_epochs": "12"}),
    ),
    importance={"ppo.learning_rate": 0.81, "ppo.n_epochs": 0.19},
    confirmation=Confirmation(
        seeds=(1001, 1002, 1003), winner=(488.0, 486.0, 490.0), default=(390.0, 401.0, 380.0), says="better",
        difference=97.7, low=68.1, high=127.2,
    ),
    ended=True,
)  # fmt: skip

AUDIT_LOG = (
    replies.AuditEntry(t=NOW - 9000, what="launch", detail="preset heavy", by="screen, pts/3"),
    replies.AuditEntry(t=NOW - 7010, what="stop", by="command line, pts/7"),
    replies.AuditEntry(t=NOW - 7000, what="ended", detail="stopped: stopped on request"),
    replies.AuditEntry(t=NOW - 6900, what="resume", detail="attempt 2 from 008192000", by="sweep.py"),
    replies.AuditEntry(
        t=NOW - 600, what="note", detail="the return had not moved for fifty updates", by="screen, pts/3"
    ),
    replies.AuditEntry(t=NOW - 60, what="checkpoint", by="rule kl-persistent"),
)

SMOKED = (
    CheckStep(name="versions", level="ok", detail="Python 3.11.7, torch 2.13.0"),
    CheckStep(name="imports", level="failed", detail="env.imports: module 'mine' cannot be imported", exit_code=78),
    CheckStep(name="rollout", level="skipped", detail=""),
)


class FakeClient:
    """Satisfies `FleetClient`. `asked` holds every request in order; `answers` replaces the built-in answer by type."""

    def __init__(self, snapshot: FleetSnapshot) -> None:
        self.snapshot = snapshot
        self.asked: list[Request] = []
        self.asked_at: list[str] = []
        self.answers: dict[type[Request], Respond] = {}
        self.progress: list[Progress] = []
        self.gone = False
        self.player: PlayedFrame | None = None
        self._changed = asyncio.Event()

    def show(self, snapshot: FleetSnapshot) -> None:
        """Send another snapshot to whoever watches."""
        self.snapshot = snapshot
        self._changed.set()

    def vanish(self) -> None:
        """The supervisor dies: watches end and questions fail."""
        self.gone = True
        self._changed.set()

    def come_back(self) -> None:
        """A new supervisor answers."""
        self.gone = False

    def asked_for(self, kind: type[Request]) -> list[Any]:
        """The requests of one kind."""
        return [request for request in self.asked if isinstance(request, kind)]

    @property
    def asked_by_hand(self) -> list[Request]:
        """The requests, less those that the list makes by itself: for the whole return of ended runs."""
        return [it for it in self.asked if not (isinstance(it, requests.GetHistory) and it.is_course)]

    async def watch(self) -> AsyncIterator[FleetSnapshot]:
        while not self.gone:
            self._changed.clear()
            yield self.snapshot
            await self._changed.wait()
        raise NoSupervisorError("the supervisor went away")

    async def ask(self, make: Callable[[int], AnsweredBy[Answer]]) -> Answer:
        replies = [reply async for reply in self.stream(make)]
        return cast("Answer", replies[-1])

    async def stream(self, make: Callable[[int], AnsweredBy[Answer]]) -> AsyncIterator[Answer | Progress]:
        request = cast("Request", make(len(self.asked) + 1))
        self.asked.append(request)
        if self.gone:
            raise NoSupervisorError("no supervisor answers")
        if isinstance(request, requests.Evaluate):
            for progress in self.progress:
                yield progress
        answer = self.answers.get(type(request), self._answer)(request)
        if isinstance(answer, replies.Refused):
            raise MissionError(answer.message)
        yield cast("Answer", answer)

    def at(self, machine: str) -> FakeClient:
        """What is asked next is asked of `machine`."""
        self.asked_at.append(machine)
        return self

    def wake(self) -> None:
        """As F5 does."""
        self.gone = False

    async def close(self) -> None:
        """Nothing to let go of."""

    def _played(self, request: requests.Play, order: PlayOrder) -> PlayedFrame:
        """An episode of fifty steps, each worth one; the picture says how far it is."""
        name = request.checkpoint or (self.player.checkpoint if self.player else "011468800")
        before = self.player if self.player is not None and self.player.checkpoint == name else None
        seed = order.seed if order.seed is not None else 10_000 if before is None else before.seed
        fresh = before is None or order.restart or order.seed is not None or (before.over and order.steps > 0)
        if fresh and before is not None and order.seed is None:
            seed += 1
        step = 0 if fresh or before is None else min(50, before.step + order.steps)
        share = round(0.5 + step / 200, 4)
        text = "\n".join(["o" * (step % 20) + "@", "-" * 20, f"step {step}"])
        self.player = PlayedFrame(
            picture="" if order.canvas.cell else text,
            pixels=PixelPicture(width=60, height=40, png=b"%06d" % step * 100) if order.canvas.cell else None,
            drawn="state",
            checkpoint=name,
            timesteps=int(name) if name.isdecimal() else 0,
            seed=seed,
            step=step,
            episode_return=float(step),
            over=step == 50,
            outcome="captured" if step == 50 else None,
            heads=(ActionHead(taken=1.0, probabilities=(round(1 - share, 4), share)),),
            value=12.5,
        )
        return self.player

    def _answer(self, request: Request) -> OperatorReply:
        re = request.id
        match request:
            case requests.Play(order=order):
                return replies.Played(re=re, frame=self._played(request, order))
            case requests.StopPlay():
                self.player = None
                return replies.Accepted(re=re, runs=())
            case requests.GetSnapshot():
                return replies.SnapshotReply(re=re, snapshot=self.snapshot)
            case requests.Launch(items=items):
                views = tuple(self._made(item, at) for at, item in enumerate(items))
                self.show(structs.replace(self.snapshot, runs=(*views, *self.snapshot.runs)))
                return replies.Launched(re=re, runs=views)
            case (
                requests.Act(runs=runs)
                | requests.Undo(runs=runs)
                | requests.Remove(runs=runs)
                | requests.Restore(runs=runs)
            ):
                return replies.Accepted(re=re, runs=runs)
            case requests.Set(run=run, check_only=True):
                return replies.VerdictReply(re=re, run=run, verdict=FEWER_EPOCHS, accept_needed=False)
            case requests.Clone():
                return replies.Accepted(
                    re=re, runs=(self.snapshot.runs[1].id,), notes=("cloned from heavy-3f9a; nothing changed",)
                )
            case requests.Set(run=run) | requests.Rename(run=run) | requests.Note(run=run) | requests.Label(run=run):
                return replies.Accepted(re=re, runs=(run,))
            case requests.Resume(run=run):
                return replies.Accepted(re=re, runs=(run,))
            case requests.Mark(run=run):
                return replies.Accepted(re=re, runs=(run,))
            case requests.Apply(run=run, check_only=True):
                return replies.VerdictReply(
                    re=re, run=run, verdict=FEWER_EPOCHS, accept_needed=False, checkpoint="000009832"
                )
            case requests.Apply(run=run):
                return replies.Accepted(re=re, runs=(run,))
            case requests.Clean():
                return replies.CleanReply(re=re, stale=())
            case requests.GetDetails(run=run):
                return details(re, self._view(run))
            case requests.GetHistory(run=run, series=series, points=points, from_update=first, to_update=last):
                newest = min(last or 1 << 30, self._view(run).update or 0)
                return history(re, run, series, min(points, max(0, newest - first)), first)
            case requests.GetLog():
                return log(re, request, self._view(request.run))
            case requests.GetStrip(seconds=seconds):
                strip = a_strip(seconds, self.snapshot.t, gpu=bool(self.snapshot.gpus))
                return replies.StripReply(re=re, strip=strip)
            case requests.GetUpgrades():
                changed = Change("packages", "torch 2.13.0", "torch 2.14.0", "note", "1 differ")
                one = replies.Upgrade(run=self.snapshot.runs[0].id, name="heavy-3f9a", changes=(changed,))
                return replies.UpgradesReply(re=re, upgrades=(one,), looked=1)
            case requests.Quote(items=items):
                pace = ReferenceSpeed(name="heavy-3f9a", t=NOW - 7200.0, steps_per_s=1412.0, start_s=9.0)
                cost = Cost(
                    ram_bytes=700 << 20,
                    ram_seen=True,
                    vram_bytes=1200 << 20,
                    vram_seen=False,
                    cores=1,
                    gpu=0,
                    pace=pace,
                )
                return replies.Quoted(re=re, costs=(cost,) * len(items))
            case requests.Check():
                return replies.Checked(
                    re=re, steps=SMOKED, figures=CheckFigures(updates=2, hours=2.5, memory_bytes=1 << 29)
                )
            case requests.Evaluate(run=run):
                return replies.Evaluated(re=re, result=evaluation(run))
            case _:
                return replies.Refused(re=re, message=f"the fake knows no {type(request).__name__}")

    def _view(self, run: str) -> RunView:
        return next(view for view in self.snapshot.runs if view.id == run)

    def _made(self, item: LaunchItem, at: int) -> RunView:
        name = item.name or f"{item.spec.preset}-new{at}"
        run = f"20261121-120000-{name}"
        return RunView(
            id=run,
            name=name,
            preset=item.spec.preset,
            run_dir=f"/runs/{run}",
            state="queued",
            created_t=self.snapshot.t,
        )


def a_spec(preset: str = "heavy", **ppo: Any) -> Spec:
    """A spec as `resolve` would make it."""
    return Spec(
        preset=preset,
        env=EnvSpec(id="MissionGym-v0", n_envs=32, config="standard"),
        ppo=PpoSpec(**({"n_steps": 256, "batch_size": 1024, "n_epochs": 4, "learning_rate": 3e-4} | ppo)),
        run=RunSpec(total_timesteps=50_000_000, seed=7),
    )


def details(re: int, view: RunView) -> replies.DetailsReply:
    """Details with two attempts, three checkpoints and one evaluation."""
    checkpoints = tuple(
        replies.CheckpointView(
            name=f"{steps:09d}", update=steps // 8192, timesteps=steps, t=NOW - age, size_bytes=1_400_000,
            reason=reason, verified=verified,
        )
        for steps, age, reason, verified in (
            (8_192_000, 3700.0, "time", True), (9_830_400, 1900.0, "asked", True), (11_468_800, 300.0, "time", None)
        )
    )  # fmt: skip
    return replies.DetailsReply(
        re=re,
        view=view,
        spec=a_spec(view.preset),
        effective={
            "env": {"n_envs": 32, "vec": "native"},
            "ppo": {"n_steps": 256, "batch_size": 1024, "learning_rate": 2.5e-4},
            "run": {"device": "cpu", "threads": 1},
            "host": {"torch": "2.13.0"},
            "reasons": {"env.vec": "one step takes 9 us: cheaper in the trainer than in a worker"},
        },
        attempts=(
            replies.AttemptView(
                attempt=1, started_t=NOW - 9000, ended_t=NOW - 7000, outcome="stopped", cause="stopped on request",
                from_checkpoint=None, from_timesteps=None,
            ),
            replies.AttemptView(
                attempt=2, started_t=NOW - 6900, ended_t=None, outcome=None, cause=None,
                from_checkpoint="008192000", from_timesteps=8_192_000,
            ),
        ),
        checkpoints=checkpoints,
        evaluations=(evaluation(view.id),),
        audit_log=AUDIT_LOG,
        search=A_SEARCH if is_driver(view.preset) else None,
    )  # fmt: skip


def evaluation(run: str) -> dict[str, Any]:
    """A result as `evaluations/` holds it."""
    return {
        "run": run, "checkpoint": "011468800", "episodes": 100, "mean": 11.82, "std": 2.41, "ci95": [11.34, 12.3],
        "lengths": {"mean": 402.5}, "outcomes": {"captured": 88, "timeout": 9, "stalled": 3}, "won": 0.88,
        "t": NOW - 120,
        "reel": {
            name: {"seed": seed, "return": mean, "steps": 400, "outcome": outcome}
            for name, seed, mean, outcome in (
                ("best", 10041, 16.4, "captured"), ("median", 10003, 11.9, "captured"), ("worst", 10007, 3.1, "stalled")
            )
        },
    }  # fmt: skip


def history(re: int, run: str, series: Sequence[str], points: int, first: int = 0) -> replies.HistoryReply:
    """Curves that rise and waver; the KL jumps where its finding begins."""
    updates = tuple(range(first + 1, first + points + 1))
    curves = {tag: _curve(tag, updates, first) for tag in series if tag != EPISODES}
    spread = {tag: 0.0 if tag == "train/approx_kl" else 0.4 for tag in series}
    return replies.HistoryReply(
        re=re,
        run=run,
        updates=updates,
        timesteps=tuple(8192 * n for n in updates),
        t=tuple(NOW - points + n for n in updates),
        low={tag: tuple(value - spread[tag] for value in values) for tag, values in curves.items()},
        high={tag: tuple(value + spread[tag] for value in values) for tag, values in curves.items()},
        episodes=tuple(10 for _ in updates) if EPISODES in series else (),
        outcomes=_outcomes(points) if EPISODES in series else {},
    )


def _outcomes(points: int) -> dict[str, tuple[int, ...]]:
    """Of ten episodes each: ever more captured, ever fewer timeouts, and one in ten that nobody named."""
    captured = tuple(min(8, 9 * n // max(1, points)) for n in range(points))
    return {"captured": captured, "stalled": (1,) * points, "timeout": tuple(8 - n for n in captured)}


def _curve(tag: str, updates: Sequence[int], first: int) -> tuple[float, ...]:
    if tag == "train/approx_kl":
        return tuple((0.05 if n > 1198 else 0.015) + 0.01 * ((n * 7) % 5 - 2) / 5 for n in updates)
    points = max(1, len(updates))
    return tuple(12 * (1 - 0.97 ** (60 * (n - first) / points)) + 0.6 * ((n * 7) % 5 - 2) / 5 for n in updates)


def log(re: int, request: requests.GetLog, view: RunView) -> replies.LogReply:
    """The output of an attempt; it does not grow."""
    text = "".join(f"[{n:04d}] rollout done, return {n / 10:.1f}\n" for n in range(120)) + "warning: slow step 91 ms\n"
    end = len(text)
    start = end if request.offset == end else max(0, (request.offset or 0))
    return replies.LogReply(
        re=re, run=view.id, attempt=max(1, view.attempt), text=text[start:], start=start, end=end, size=end
    )
