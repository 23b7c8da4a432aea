"""What Ray is told and what is made of its answers, without any: room, refusals, lost answers, heads that forget."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from mission_tui.fleet.specs.spec import RaySpec
from mission_tui.keeper.child import StartError, _secrets_on_stdin
from mission_tui.keeper.files import exit_record, write_json
from mission_tui.records.runs.attempt import Handle, LaunchOrder, read_exit, read_handle, write_spec
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.launchers import Job, cluster_check, engine, ray
from mission_tui.supervisor.launchers.engine import half_of_secrets
from mission_tui.supervisor.launchers.ray import RayLauncher, entrypoint
from mission_tui.supervisor.launchers.ray_rest import (
    Address,
    Asked,
    Node,
    RayError,
    address_in,
    call,
    place,
    read_jobs,
    read_nodes,
    token_in,
)
from tests.supervisor.conftest import DIGEST, stub_spec

HOME = "http://127.0.0.1:8265"


def node(name: str, gpus: float = 1.0, used: float = 0.0, **labels: str) -> Node:
    """A node with four CPUs."""
    total = {"CPU": 4.0, "GPU": gpus}
    return Node(id=name, name=name, alive=True, total=total, labels=labels, used={"CPU": 0.0, "GPU": used})


def asks(gpus: float, **labels: str) -> Asked:
    """An attempt of one core."""
    return Asked({"CPU": 1.0, "GPU": gpus}, labels)


def test_who_has_no_room_keeps_the_nodes_that_could_carry_it() -> None:
    """Shares fill the emptier node first; later ones go only where the first that waits could not go anyway."""
    nodes, held = [node("a", used=0.5), node("b")], set[str]()
    assert [getattr(place(asks(0.5), nodes, held), "name", None) for _ in range(4)] == ["b", "a", "b", None]
    nodes, held = [node("a", used=0.5), node("b", gpus=0.5)], set()
    assert place(asks(1.0), nodes, held) is None
    assert getattr(place(asks(0.5), nodes, held), "name", None) == "b"
    assert place(asks(0.5), nodes, held) is None


@pytest.mark.parametrize(
    ("wanted", "fits"), [("x", "x"), ("!x", "y"), ("in(x, z)", "x"), ("!in(x,z)", "y"), ("in(y)", "y")]
)
def test_labels_select_as_in_ray(wanted: str, fits: str) -> None:
    """Equal, not equal, in a list, and not in one."""
    nodes = [node("x", zone="x"), node("y", zone="y")]
    assert getattr(place(asks(0.5, zone=wanted), nodes, set()), "name", None) == fits


def test_what_is_in_use_is_read_by_node_however_names_are_spelled() -> None:
    """The list of nodes and the status spell a resource in two ways; a node that is down has no room."""
    listed = {
        "data": {
            "result": {
                "result": [
                    {"node_id": "aa", "state": "ALIVE", "node_name": "n", "resources_total": {"GPU": 2, "my_card": 3}},
                    {"node_id": "bb", "state": "DEAD", "node_name": "n", "resources_total": {"GPU": 2}},
                ]
            }
        }
    }
    usage = {"aa": {"GPU": [0.5, 2], "myCard": [1, 3]}}
    status = {"data": {"clusterStatus": {"loadMetricsReport": {"usageByNode": usage}}}}
    alive, dead = read_nodes(msgspec.json.encode(listed), msgspec.json.encode(status))
    assert (alive.used, alive.name, dead.has_room(asks(0.5))) == ({"GPU": 0.5, "my_card": 1.0}, "n", False)
    # Before the first report nothing is known to be in use.
    assert read_nodes(msgspec.json.encode(listed), b'{"data":{"clusterStatus":null}}')[0].used["GPU"] == 0.0


def test_what_is_no_list_of_jobs_is_refused() -> None:
    """Nobody's run has ended for an answer that cannot be read."""
    for odd in (b"", b"{", b"{}", b"null", b'[{"status":1}]', b"[" * 100_000):
        with pytest.raises(RayError, match="no list of jobs"):
            read_jobs(odd)


def test_address_and_token_are_found_where_rays_own_clients_look(tmp_path: Path) -> None:
    """What was asked for, then Ray's variables; a port for Ray's own protocol is no address of its dashboard."""
    assert address_in({"RAY_ADDRESS": "http://head:8265/"}, None) == "http://head:8265"
    assert address_in({"RAY_ADDRESS": "10.0.0.1:6379"}, None) == HOME
    assert address_in({"RAY_ADDRESS": "http://head:8265"}, "https://other/ray") == "https://other/ray"
    for odd in ("head:8265", "ftp://head", "http://", "http://head:port", "http://me:secret@head"):
        with pytest.raises(RayError, match=r"ray\.address = '.*' is no address of a Ray dashboard"):
            address_in({}, odd)
    (tmp_path / "token").write_text("from a file\n", encoding="ascii")
    assert token_in({"RAY_AUTH_TOKEN_PATH": str(tmp_path / "token")}) == "from a file"
    assert token_in({"RAY_AUTH_TOKEN": "said", "RAY_AUTH_TOKEN_PATH": str(tmp_path / "token")}) == "said"
    assert token_in({"HOME": str(tmp_path)}) == ""


@contextmanager
def answering(answer: bytes, *, slowly: bool = False) -> Iterator[tuple[str, list[bytes]]]:
    """A server that reads one request and answers so, or byte for byte without an end; what it was asked."""
    heard: list[bytes] = []
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                heard.append(connection.recv(65536))
                connection.sendall(answer)
                while slowly and not done.wait(0.02):
                    try:
                        connection.sendall(b"x")
                    except OSError:
                        return

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", heard
        done.set()
        thread.join(5)


def test_a_call_carries_the_token_in_its_head_and_follows_no_redirect() -> None:
    """Another host would get it."""
    elsewhere = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    with answering(elsewhere) as (url, heard), pytest.raises(RayError, match="answered 302"):
        call(Address(url, "sesame"), "GET", "/api/version")
    assert b"Authorization: Bearer sesame\r\n" in heard[0]
    assert "sesame" not in repr(Address(url, "sesame"))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", r"wants a token \(401\): set RAY_AUTH_TOKEN"),
        (
            b"HTTP/1.1 500 Oh\r\n\r\nTraceback:\n  File x\nValueError: bad label\n.\n",
            "answered 500: ValueError: bad label",
        ),
        (b"nonsense\r\n\r\n", "did not answer"),
        (b"", "did not answer"),
    ],
)
def test_what_is_no_answer_is_one_sentence(answer: bytes, said: str) -> None:
    """Refusals in Ray's own last words, and silence."""
    with answering(answer) as (url, _), pytest.raises(RayError, match=said) as caught:
        call(Address(url), "GET", "/api/jobs/")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("closing", [False, True])
def test_an_answer_that_never_ends_is_cut_off(monkeypatch: pytest.MonkeyPatch, closing: bool) -> None:
    """A byte now and then keeps nobody waiting beyond the time of a call."""
    monkeypatch.setattr("mission_tui.supervisor.launchers.ray_rest.CALL_S", 0.3)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n"
    head += b"Connection: close\r\n\r\n" if closing else b"\r\n"
    with answering(head, slowly=True) as (url, _), pytest.raises(RayError, match="did not answer") as caught:
        call(Address(url), "GET", "/api/jobs/")
    assert caught.value.sent


def ordered(tmp_path: Path, **words: object) -> tuple[RunDir, LaunchOrder]:
    """A run directory with a spec for Ray, and its order."""
    run = RunDir(tmp_path / f"20261121-000000-a %j-{len(str(tmp_path)):04}")
    run.attempt(1).path.mkdir(parents=True)
    write_spec(run.spec, structs.replace(stub_spec(), ray=RaySpec(address=HOME, **words)))  # type: ignore[arg-type]
    env = {"PATH": "/bin", "TOKEN": "very secret", "HOME": str(tmp_path)}
    return run, LaunchOrder(run=run.id, attempt=1, argv=("x",), cwd="/", env=env, nonce="n", withheld=("TOKEN",))


def test_a_secret_is_whole_only_in_the_hands_of_the_keeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray shows what it was given: half of it, which says nothing; the other half is gone once it was read. Without
    that half no run begins.
    """
    run, order = ordered(tmp_path)
    said = half_of_secrets(run, order)
    # An answer that is lost is followed by a second submission, and either may be carried out.
    assert half_of_secrets(run, order) == said
    assert b"very" not in base64.b64decode(said)
    assert b"very" not in run.attempt(1).pad.read_bytes()
    assert "very" not in entrypoint(run, order, DIGEST)
    monkeypatch.setattr("os.dup2", lambda *_: None)
    monkeypatch.setattr("mission_tui.keeper.child.open", lambda *_, **__: _Stdin(b""), raising=False)
    with pytest.raises(StartError, match="did not arrive with its job"):
        _secrets_on_stdin(run.attempt(1).pad)
    monkeypatch.setattr("mission_tui.keeper.child.open", lambda *_, **__: _Stdin(said.encode()), raising=False)
    assert _secrets_on_stdin(run.attempt(1).pad) == {"TOKEN": "very secret"}
    assert not run.attempt(1).pad.exists()


class _Stdin:
    """Standard input with these bytes."""

    def __init__(self, said: bytes) -> None:
        self.said = said

    def __enter__(self) -> _Stdin:
        return self

    def __exit__(self, *_: object) -> None: ...

    def read(self) -> bytes:
        return self.said


class Head:
    """In the place of Ray's head: its jobs, what is in use on its one node, and what it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.used = 0.0
        self.down = self.mute = False
        self.gone = False
        self.asked: list[str] = []
        self.token = ""
        monkeypatch.setattr(ray, "call", self.call)
        monkeypatch.setattr(engine, "SOON_POLL_S", 0.0)

    def call(self, at: Address, method: str, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        if self.token and at.token != self.token:
            raise RayError(f"Ray at {at.url} does not accept the token", unauthorised=True)
        if self.down or (self.gone and body is not None):
            raise RayError(f"Ray does not answer at {at.url}: Connection refused", unreached=True)
        self.asked.append(f"{method} {path}")
        if path.startswith("/api/v0/nodes"):
            one = {"node_id": "aa", "state": "ALIVE", "node_name": "n1", "resources_total": {"CPU": 4, "GPU": 1}}
            return msgspec.json.encode({"data": {"result": {"result": [one]}}})
        if path == "/api/cluster_status":
            usage = {"usageByNode": {"aa": {"GPU": [self.used, 1]}}}
            return msgspec.json.encode({"data": {"clusterStatus": {"loadMetricsReport": usage}}})
        if method == "GET":
            return msgspec.json.encode(list(self.jobs.values()))
        if body is not None:
            number = body["submission_id"]
            if number in self.jobs:
                raise RayError(f"answered 500: ValueError: Job with submission_id {number} already exists.", sent=True)
            self.jobs[number] = {"submission_id": number, "status": "PENDING"}
            if self.mute:
                raise RayError("Ray did not answer: no answer within 20 s", sent=True)
        return b"{}"

    @property
    def submitted(self) -> int:
        return self.asked.count("POST /api/jobs/")

    def set(self, status: str, **more: object) -> None:
        """Have its newest job be so."""
        list(self.jobs.values())[-1].update(status=status, driver_node_id="aa", **more)


@pytest.fixture
def head(monkeypatch: pytest.MonkeyPatch) -> Head:
    return Head(monkeypatch)


async def submitted(launcher: RayLauncher, run: RunDir, order: LaunchOrder, beats: int = 1) -> Job:
    """The job of `order`, after so many refreshes."""
    job = Job(run, order.attempt, order.nonce, launcher.submit(run, order, DIGEST))
    for _ in range(beats):
        await launcher.refresh([job])
    return job


async def test_a_run_waits_here_until_a_node_has_room(tmp_path: Path, head: Head) -> None:
    """Nothing is handed to Ray before, and it says what it waits for; what no node will ever have is said too."""
    head.used = 0.75
    launcher = RayLauncher()
    run, order = ordered(tmp_path, gpus=0.5)
    job = await submitted(launcher, run, order)
    assert (launcher.poll(job).stage, launcher.poll(job).why) == (
        "queued",
        "waits: no node of Ray has 1 CPU, 0.5 GPU, 0.738 GiB free",
    )
    assert head.submitted == 0
    head.used = 0.5
    await launcher.refresh([job])
    handle = read_handle(run.attempt(1).handle)
    assert handle is not None
    assert (list(head.jobs), handle.address) == ([handle.id], HOME)
    large, its = ordered(tmp_path / "large", gpus=2.0)
    job = await submitted(launcher, large, its)
    assert launcher.poll(job).why == "waits: no node of Ray has 1 CPU, 2 GPU, 0.738 GiB"
    assert launcher.stop(job) == "keeper"
    assert launcher.poll(job).stage == "gone"


async def test_a_cluster_that_grows_is_handed_what_has_no_room(
    tmp_path: Path, head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a run asks for is read once, not at every look for room; one that may not wait in Ray stays here."""
    head.used = 1.0
    launcher = RayLauncher()
    grows = await submitted(launcher, *ordered(tmp_path / "grows", gpus=0.5, autoscales=True), beats=2)
    assert (launcher.poll(grows).stage, head.submitted) == ("queued", 1)
    head.jobs.clear()
    launcher, (run, order) = RayLauncher(), ordered(tmp_path / "waits", gpus=0.5)
    waits = Job(run, 1, order.nonce, launcher.submit(run, order, DIGEST))
    monkeypatch.setattr(ray, "read_attempt_spec", None)
    await launcher.refresh([waits])
    assert launcher.poll(waits).why == "waits: no node of Ray has 1 CPU, 0.5 GPU, 0.738 GiB free"


async def test_a_submission_whose_answer_was_lost_is_made_once(tmp_path: Path, head: Head) -> None:
    """It has the same name whoever makes it again: found in the list, it is the run's job."""
    head.mute = True
    run, order = ordered(tmp_path)
    launcher = RayLauncher()
    job = await submitted(launcher, run, order, 3)
    assert (len(head.jobs), launcher.poll(job).stage) == (1, "queued")
    head.set("RUNNING")
    await launcher.refresh([job])
    assert launcher.poll(job).stage == "starting"
    # The supervisor died before it wrote the number: the next one finds it by its name.
    unwritten = Job(run, 1, "n", Handle(launcher="ray", id="", submitted_t=1.0, address=HOME))
    launcher = RayLauncher()
    assert launcher.is_coming(unwritten)
    await launcher.refresh([unwritten])
    assert (launcher.poll(unwritten).stage, launcher.poll(unwritten).node) == ("starting", "n1")


async def test_a_head_that_goes_down_before_a_submission_is_waited_for(tmp_path: Path, head: Head) -> None:
    """It answered a moment ago: nothing was submitted, and the run is once it is back."""
    launcher = RayLauncher()
    head.gone = True
    run, order = ordered(tmp_path)
    job = await submitted(launcher, run, order)
    assert (launcher.poll(job).stage, "Connection refused" in launcher.poll(job).why) == ("queued", True)
    head.gone = False
    await launcher.refresh([job])
    assert (len(head.jobs), run.attempt(1).exit.exists()) == (1, False)


async def test_a_head_that_is_down_ends_a_launch_and_no_run(
    tmp_path: Path, head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has just been launched is told; who was seen once waits, and who trains goes on as it was, until it ends."""
    launcher = RayLauncher()
    run, order = ordered(tmp_path)
    job = await submitted(launcher, run, order)
    head.set("RUNNING")
    run.attempt(1).identity.touch()
    await launcher.refresh([job])
    head.down = True
    with pytest.raises(RayError):
        await launcher.refresh([job])
    assert (launcher.poll(job).stage, launcher.is_free(run)) == ("running", False)
    # What its keeper wrote about its end is believed, whatever the last list said.
    write_json(run.attempt(1).exit, exit_record(1, code=0))
    assert launcher.poll(job).stage == "running"
    monkeypatch.setattr(engine, "STATE_S", 0.0)
    assert (launcher.poll(job).stage, launcher.is_free(run)) == ("gone", True)
    launcher, (run, order) = RayLauncher(), ordered(tmp_path / "new")
    job = await submitted(launcher, run, order)
    ended = read_exit(run.attempt(1).exit)
    assert ended is not None
    assert ended.start_error == f"Ray did not start it: Ray does not answer at {HOME}: Connection refused"
    assert launcher.poll(job).stage == "gone"


async def test_a_wrong_token_shuts_out_nobody_else(tmp_path: Path, head: Head) -> None:
    """Who launches with it is refused; runs of a right one are followed as before."""
    head.token = "right"
    launcher = RayLauncher()
    run, order = ordered(tmp_path)
    job = await submitted(launcher, run, structs.replace(order, env=order.env | {"RAY_AUTH_TOKEN": "right"}))
    head.set("RUNNING")
    other, order = ordered(tmp_path / "other")
    order = structs.replace(order, env=order.env | {"RAY_AUTH_TOKEN": "wrong"})
    refused = Job(other, 1, order.nonce, launcher.submit(other, order, DIGEST))
    with pytest.raises(RayError):
        await launcher.refresh([job, refused])
    ended = read_exit(other.attempt(1).exit)
    assert ended is not None
    assert "does not accept the token" in (ended.start_error or "")
    await launcher.refresh([job])
    assert launcher.poll(job).stage == "starting"


async def test_what_ray_never_placed_waits_here_again(tmp_path: Path, head: Head) -> None:
    """Somebody else took the room: after a quarter of an hour Ray fails the job, and that is no end of the run."""
    launcher = RayLauncher()
    run, order = ordered(tmp_path, gpus=0.5)
    job = await submitted(launcher, run, order)
    head.used = 1.0
    head.set("FAILED", error_type="JOB_SUPERVISOR_ACTOR_START_TIMEOUT")
    await launcher.refresh([job])
    assert launcher.poll(job).stage == "queued"
    head.used = 0.0
    await launcher.refresh([job])
    assert len(head.jobs) == 2


@pytest.mark.parametrize(
    ("status", "more", "interrupted", "why"),
    [
        (
            "FAILED",
            {"error_type": "JOB_SUPERVISOR_ACTOR_DIED", "message": "... because its node has died. ..."},
            "node n1 was lost",
            "node n1 was lost",
        ),
        ("FAILED", {"error_type": "JOB_SUPERVISOR_ACTOR_DIED", "message": "gone"}, "Ray lost its job", "Ray lost"),
        ("STOPPED", {}, "", "somebody stopped its job"),
        ("FAILED", {"driver_exit_code": 73}, "", "node n1 does not see the runs root"),
    ],
)
async def test_what_ray_lost_may_go_on_elsewhere(
    tmp_path: Path, head: Head, status: str, more: dict[str, object], interrupted: str, why: str
) -> None:
    """A lost node does; what somebody stopped does not. A node that does not see the runs root says so."""
    launcher = RayLauncher()
    run, order = ordered(tmp_path)
    job = await submitted(launcher, run, order)
    head.set(status, **more)
    await launcher.refresh([job])
    seen = launcher.poll(job)
    assert seen.stage == "gone"
    assert seen.interrupted.startswith(interrupted) if interrupted else not seen.interrupted
    assert why in seen.why


async def test_a_job_that_the_head_forgot_is_there_while_its_trainer_writes(
    tmp_path: Path, head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unknown is not gone: only a mailbox that stays as it is says that nobody trains, and then the run goes on."""
    launcher, now = RayLauncher(), [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    run, order = ordered(tmp_path)
    job = await submitted(launcher, run, order)
    head.set("RUNNING")
    run.attempt(1).identity.touch()
    await launcher.refresh([job])
    head.jobs.clear()
    await launcher.refresh([job])
    assert launcher.poll(job).stage == "running"
    for beat in range(4):
        run.attempt(1).alive.write_text(str(beat), encoding="ascii")
        now[0] += 20
        await launcher.refresh([job])
        assert launcher.poll(job).stage == "running"
    now[0] += 31
    await launcher.refresh([job])
    assert "has forgotten job" in launcher.poll(job).interrupted


async def test_stop_and_kill_are_words_for_the_keeper_and_ray_is_asked_after_the_grace(
    tmp_path: Path, head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray would end every process within three seconds; where it lost the job, the fence ends the trainer."""
    launcher, now = RayLauncher(), [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    run, order = ordered(tmp_path)
    job = await submitted(launcher, run, order)
    head.set("RUNNING")
    run.attempt(1).identity.touch()

    def stops() -> int:
        return sum(path.endswith("/stop") for path in head.asked)

    for verb, word, patience_s in (("stop", b"TERM\n", 4 * 30 + 30), ("kill", b"QUIT\n", 10)):
        before = stops()
        getattr(launcher, verb)(job)
        assert run.attempt(1).signal.read_bytes() == word
        now[0] += patience_s - 1
        await launcher.refresh([job])
        assert stops() == before
        now[0] += 4
        await launcher.refresh([job])
        assert stops() == before + 1
    head.set("FAILED", error_type="JOB_SUPERVISOR_ACTOR_DIED")
    run.attempt(1).alive.write_text("beats", encoding="ascii")
    await launcher.refresh([job])
    assert launcher.poll(job).stage == "running"
    assert b'"attempt": 2' in run.fence.read_bytes()


def test_a_check_takes_its_job_off_the_list_of_a_busy_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop that is lost, and a job that has not ended when it is first asked to go, leave nothing behind."""
    asked: list[str] = []

    def answered(_: Address, method: str, path: str, __: object = None) -> bytes:
        asked.append(method)
        if method == "POST" or asked.count("DELETE") < 3:
            raise RayError("it does not answer", sent=True)
        return b"{}"

    monkeypatch.setattr("mission_tui.supervisor.launchers.ray_rest.call", answered)
    monkeypatch.setattr(cluster_check, "LOOK_S", 0.0)
    monkeypatch.setenv("RAY_ADDRESS", HOME)
    cluster_check.RayEngine(stub_spec()).forget("mission-tui-doctor-1")
    assert asked == ["POST", "DELETE", "DELETE", "DELETE"]
