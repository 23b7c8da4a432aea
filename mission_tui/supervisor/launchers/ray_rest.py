"""What is said to Ray over REST, and what it answers: jobs, nodes and the room on them. Nothing of Ray is imported.

Every call is bounded in time and its answer checked. The token goes into the head of a request and nowhere else: no
redirect is followed, because that would carry it to another host.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct

from mission_tui.errors import MissionError
from mission_tui.fleet.text import clean
from mission_tui.paths import home_dir
from mission_tui.plain_files import read_given

CALL_S = 20.0
"""How long a call may take, from its first byte to its last."""

HOME_ADDRESS = "http://127.0.0.1:8265"
"""Where Ray's dashboard is on its head, and where an ssh tunnel to it commonly begins."""

MOST_BYTES = 64 << 20
_WORD_CHARACTERS = 300
_TOKEN_BYTES = 4096
_EPSILON = 1e-4
"""Ray reckons in ten-thousandths of a resource."""

_SELECTOR = re.compile(r"(!?)in\((.*)\)")
_NODE_GONE = ("JOB_SUPERVISOR_ACTOR_DIED", "JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE")
NEVER_PLACED = (
    "JOB_SUPERVISOR_ACTOR_START_TIMEOUT",
    "JOB_SUPERVISOR_ACTOR_START_FAILURE",
    "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE",
)
"""The failures of a job that no node has taken."""


class RayError(MissionError):
    """Ray could not be asked, or refused; `sent` tells whether it may have been carried out all the same, `unreached`
    whether it was never sent, so that it may be carried out later.
    """

    def __init__(
        self, message: str, *, sent: bool = False, unreached: bool = False, unauthorised: bool = False
    ) -> None:
        super().__init__(message)
        self.sent, self.unreached, self.unauthorised = sent, unreached, unauthorised


@dataclass(frozen=True, slots=True)
class Address:
    """Where Ray is asked, and the token that it is shown, if there is one."""

    url: str
    token: str = field(default="", repr=False)


def address_in(environ: Mapping[str, str], asked: str | None) -> str:
    """The URL of Ray's dashboard: what was asked for, or what Ray's own variables say, or this machine's.

    Raises `RayError` for what is no URL.
    """
    said = asked or environ.get("RAY_API_SERVER_ADDRESS") or environ.get("RAY_ADDRESS", "")
    if asked is None and not said.startswith(("http://", "https://")):
        # RAY_ADDRESS may also name the port for Ray's own protocol.
        said = HOME_ADDRESS
    with suppress(ValueError):
        parts = urlsplit(said)
        # A port that is none raises here.
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and not parts.username:
            return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    raise RayError(f"ray.address = '{clean(said, 80)}' is no address of a Ray dashboard, such as {HOME_ADDRESS}")


def token_in(environ: Mapping[str, str]) -> str:
    """The user's token, where Ray's own clients look for it: `RAY_AUTH_TOKEN`, the file that `RAY_AUTH_TOKEN_PATH`
    names, or `~/.ray/auth_token`; empty without any.
    """
    if token := environ.get("RAY_AUTH_TOKEN", "").strip():
        return token
    named = environ.get("RAY_AUTH_TOKEN_PATH")
    path = Path(named).expanduser() if named else home_dir(environ) / ".ray" / "auth_token"
    try:
        return read_given(path, _TOKEN_BYTES).decode("ascii").strip()
    except (OSError, ValueError):
        return ""


def call(at: Address, method: str, path: str, body: object = None) -> bytes:
    """What Ray answers. Blocks, `CALL_S` at most. Raises `RayError` with its own words."""
    # A supervisor that asks no Ray does not load them.
    import http.client
    import socket

    parts = urlsplit(at.url)
    assert parts.hostname is not None
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=CALL_S)
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    if at.token:
        if not at.token.isascii() or not at.token.isprintable():
            raise RayError("the token for Ray has characters that no token has; look at RAY_AUTH_TOKEN")
        headers["Authorization"] = f"Bearer {at.token}"
    try:
        connection.connect()
    except (OSError, ValueError) as error:
        connection.close()
        raise RayError(f"Ray does not answer at {at.url}: {_reason(error)}", unreached=True) from error

    reached = connection.sock

    def cut() -> None:
        # Whoever sends a byte now and then is cut off too.
        with suppress(OSError):
            reached.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(CALL_S, cut)
    timer.daemon = True
    timer.start()
    try:
        connection.request(method, parts.path + path, None if body is None else msgspec.json.encode(body), headers)
        with connection.getresponse() as response:
            answer, missing = response.read(MOST_BYTES + 1), response.length
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise RayError(f"Ray at {at.url} did not answer: {_reason(error)}", sent=True) from error
    finally:
        timer.cancel()
        connection.close()
    if len(answer) > MOST_BYTES:
        raise RayError(f"Ray at {at.url} answered more than {MOST_BYTES:,} bytes", sent=True)
    if response.status != 200:
        raise _refusal(at, response.status, answer)
    if missing:
        raise RayError(f"Ray at {at.url} did not answer: it stopped in the middle, or took {CALL_S:g} s", sent=True)
    return answer


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {CALL_S:g} s"
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return clean(said or type(error).__name__, 120)


def _refusal(at: Address, status: int, answer: bytes) -> RayError:
    """Ray answers a traceback where it refuses; its last line with words says why."""
    if status in (401, 403):
        what = "does not accept the token that it was given" if at.token else "wants a token"
        return RayError(
            f"Ray at {at.url} {what} ({status}): set RAY_AUTH_TOKEN, or RAY_AUTH_TOKEN_PATH, where you launch",
            unauthorised=True,
        )
    lines = [line.strip() for line in answer.decode("utf-8", "replace").splitlines()]
    last = next((line for line in reversed(lines) if len(line) > 1), "")
    return RayError(f"Ray at {at.url} answered {status}: {clean(last, _WORD_CHARACTERS)}", sent=status >= 500)


class RayJob(Struct, frozen=True, kw_only=True):
    """A job as Ray lists it: `state` decides, `error` is the kind of its failure and `message` says more."""

    number: str
    state: str
    message: str = ""
    error: str = ""
    node: str = ""
    node_id: str = ""
    exit_code: int | None = None

    @property
    def waits(self) -> bool:
        """Whether no node has taken it."""
        return self.state == "PENDING"

    @property
    def runs(self) -> bool:
        """Whether it is on a node; a state that is not known here is taken for that."""
        return self.state not in ("PENDING", "STOPPED", "SUCCEEDED", "FAILED")

    @property
    def suspended(self) -> str:
        """Ray suspends nothing."""
        return ""

    @property
    def interrupted(self) -> str:
        """Why Ray lost it: its node went down, or what Ray has beside it there."""
        if self.state != "FAILED" or self.error not in _NODE_GONE:
            return ""
        lost = "its node has died" in self.message or "node was terminated" in self.message
        return f"node {self.node or self.node_id[:6] or 'its'} was lost" if lost else f"Ray lost its job {self.number}"

    @property
    def ended(self) -> str:
        """What Ray says of its end, where that was none in order."""
        if self.state == "SUCCEEDED" or self.runs:
            return ""
        if self.cancelled:
            return f"somebody stopped its job {self.number} in Ray"
        code = "" if self.exit_code is None else f" with exit code {self.exit_code}"
        lines = [line.strip() for line in self.message.splitlines() if line.strip()]
        # With a code, it is the log that says more.
        said = f" ({clean(lines[0], 160)})" if lines and self.exit_code is None and self.state == "FAILED" else ""
        return f"Ray ended its job {self.number}: {self.state}{code}{said}"

    @property
    def cancelled(self) -> bool:
        """Whether somebody ended it by `ray job stop`, or on the dashboard."""
        return self.state == "STOPPED"

    @property
    def why_it_waits(self) -> str:
        """As a person reads it."""
        return "waits: Ray has it, and no node has taken it yet"


class _Entry(Struct):
    """An entry of `/api/jobs/`."""

    status: str
    submission_id: str | None = None
    message: str | None = None
    error_type: str | None = None
    driver_node_id: str | None = None
    driver_exit_code: int | None = None


class _Listed(Struct):
    node_id: str
    state: str
    node_name: str = ""
    node_ip: str = ""
    resources_total: dict[str, float] = {}
    labels: dict[str, str] = {}


class _ListedResult(Struct):
    result: list[_Listed]


class _ListedData(Struct):
    result: _ListedResult


class _ListedAnswer(Struct):
    data: _ListedData


class _Report(Struct, rename="camel"):
    usage_by_node: dict[str, dict[str, tuple[float, float]]] | None = None


class _Status(Struct, rename="camel"):
    load_metrics_report: _Report | None = None


class _StatusData(Struct, rename="camel"):
    cluster_status: _Status | None = None


class _StatusAnswer(Struct):
    data: _StatusData


class Version(Struct):
    """What Ray says of itself."""

    ray_version: str


T = TypeVar("T")


def _decoded(raw: bytes, type_: type[T], what: str) -> T:
    try:
        return msgspec.json.decode(raw, type=type_)
    except (ValueError, RecursionError) as error:
        raise RayError(f"Ray answered what is no {what}: {clean(str(error), 120)}") from error


def read_version(raw: bytes) -> Version:
    """What `/api/version` answers. Raises `RayError`."""
    return _decoded(raw, Version, "version of Ray")


def read_jobs(raw: bytes) -> dict[str, RayJob]:
    """The jobs in what `/api/jobs/` answers, by their submission id. Raises `RayError`."""
    return {
        entry.submission_id: RayJob(
            number=entry.submission_id,
            state=entry.status,
            message=entry.message or "",
            error=entry.error_type or "",
            node_id=entry.driver_node_id or "",
            exit_code=entry.driver_exit_code,
        )
        for entry in _decoded(raw, list[_Entry], "list of jobs")
        if entry.submission_id
    }


class Node(Struct):
    """A node with what it has, and what of that is in use, by the names that Ray has for resources."""

    id: str
    name: str
    alive: bool
    total: Mapping[str, float]
    labels: Mapping[str, str]
    used: dict[str, float] = field(default_factory=dict)

    def has(self, asked: Asked) -> bool:
        """Whether `asked` would fit here if nothing else did."""
        enough = all(self._all_of(name) + _EPSILON >= amount for name, amount in asked.resources.items())
        return self.alive and enough and asked.suits(self.labels)

    def has_room(self, asked: Asked) -> bool:
        """Whether `asked` fits here now."""
        return self.has(asked) and all(
            self._all_of(name) - self.used.get(name, 0.0) + _EPSILON >= amount
            for name, amount in asked.resources.items()
        )

    def _all_of(self, name: str) -> float:
        """How much it has; one that says nothing of its memory is taken to have enough."""
        return self.total.get(name, math.inf if name == "memory" else 0.0)

    def take(self, asked: Asked) -> None:
        """Count `asked` as used."""
        for name, amount in asked.resources.items():
            self.used[name] = self.used.get(name, 0.0) + amount


def read_nodes(listed: bytes, status: bytes) -> list[Node]:
    """The nodes in what `/api/v0/nodes` answers, with what `/api/cluster_status` says is in use. Raises `RayError`."""
    found = _decoded(listed, _ListedAnswer, "list of nodes").data.result.result
    report = _decoded(status, _StatusAnswer, "status of a cluster").data.cluster_status
    load = None if report is None else report.load_metrics_report
    usage = {} if load is None else load.usage_by_node or {}
    names = [node.node_name or node.node_ip for node in found if node.state == "ALIVE"]
    nodes = []
    for node in found:
        # Two nodes may be on one host.
        name = node.node_name or node.node_ip
        name = f"{name}/{node.node_id[:6]}" if names.count(name) > 1 or not name else name
        # The status writes names of resources in another way: `my_card` is `myCard` there.
        used = {_plain(said): amount[0] for said, amount in usage.get(node.node_id, {}).items()}
        nodes.append(
            Node(
                id=node.node_id,
                name=clean(name, 60),
                alive=node.state == "ALIVE",
                total=node.resources_total,
                labels=node.labels,
                used={resource: used.get(_plain(resource), 0.0) for resource in node.resources_total},
            )
        )
    return nodes


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


class Asked(Struct, frozen=True):
    """What an attempt asks of a node, by Ray's names, and which labels it wants there."""

    resources: Mapping[str, float]
    labels: Mapping[str, str]

    def suits(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with `labels` is one of those; as Ray has it: ``x``, ``!x``, ``in(x,y)``, ``!in(x,y)``."""
        return all(_selects(wanted, labels.get(name)) for name, wanted in self.labels.items())

    def __str__(self) -> str:
        wanted = [f"{amount:g} {name}" for name, amount in self.resources.items() if name != "memory"]
        if memory := self.resources.get("memory"):
            wanted.append(f"{memory / (1 << 30):.3g} GiB")
        return clean(", ".join([*wanted, *(f"{name}={value}" for name, value in self.labels.items())]), 120)


def _selects(wanted: str, has: str | None) -> bool:
    if among := _SELECTOR.fullmatch(wanted):
        return (has in {word.strip() for word in among[2].split(",")}) != bool(among[1])
    return has != wanted[1:] if wanted.startswith("!") else has == wanted


def place(asked: Asked, nodes: Sequence[Node], held: set[str]) -> Node | None:
    """The node with room for `asked` that has the least in use; its share is taken. `held` are nodes kept for whoever
    waits before it; where there is no room, those that could carry it are kept for it too.
    """
    free = [node for node in nodes if node.id not in held and node.has_room(asked)]
    if not free:
        held.update(node.id for node in nodes if node.has(asked))
        return None
    chosen = min(free, key=lambda node: max(_share(node, name) for name in ("GPU", "CPU")))
    chosen.take(asked)
    return chosen


def _share(node: Node, name: str) -> float:
    total = node.total.get(name, 0.0)
    return node.used.get(name, 0.0) / total if total else 0.0


def why_no_room(asked: Asked, nodes: Sequence[Node]) -> str:
    """As a person reads it: what is asked for is in use, or no node has it."""
    if any(node.has(asked) for node in nodes):
        return f"waits: no node of Ray has {asked} free"
    return f"waits: no node of Ray has {asked}"


def job_path(number: str, what: str = "") -> str:
    """The path of a job, or of what can be asked of it."""
    return f"/api/jobs/{quote(number, safe='')}{what}"


def submission(
    number: str, entrypoint: str, asked: Asked, env_vars: Mapping[str, str], metadata: Mapping[str, str]
) -> dict[str, Any]:
    """The document that submits a job."""
    plain = {"CPU": "entrypoint_num_cpus", "GPU": "entrypoint_num_gpus", "memory": "entrypoint_memory"}
    others = {name: amount for name, amount in asked.resources.items() if name not in plain}
    said: dict[str, Any] = {plain[name]: amount for name, amount in asked.resources.items() if name in plain}
    if "entrypoint_memory" in said:
        said["entrypoint_memory"] = int(said["entrypoint_memory"])
    if others:
        said["entrypoint_resources"] = others
    if asked.labels:
        said["entrypoint_label_selector"] = dict(asked.labels)
    return said | {
        "submission_id": number,
        "entrypoint": entrypoint,
        "metadata": dict(metadata),
        "runtime_env": {"env_vars": dict(env_vars)} if env_vars else {},
    }
