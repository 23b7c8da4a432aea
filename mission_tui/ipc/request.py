"""What all requests of the operator plane have in common: an id, the type of their answer, and often whose they are."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

from mission_tui.fleet.process_limits import ProcessLimits

__all__ = ["Answer", "AnsweredBy", "ContinuingRequest", "FromClient", "Request"]

Answer = TypeVar("Answer", covariant=True)


class AnsweredBy(Generic[Answer]):
    """Mixed into a request: what a client gets back when the request is not refused."""

    __slots__ = ()


class Request(Struct, frozen=True, kw_only=True, tag_field="op", forbid_unknown_fields=True):
    """Base of all requests; `id` is chosen by the client and comes back as `re`."""

    id: int


class FromClient(Request, frozen=True, kw_only=True):
    """Base of requests that are carried out with interpreter, folder, captured environment and limits of the client.

    Without `limits`, from a client that captures none, what is started has the supervisor's.
    """

    cwd: str
    python: str
    environ: dict[str, str]
    limits: ProcessLimits | None = None


class ContinuingRequest(Request, frozen=True, kw_only=True):
    """Base of what is done as the run was launched, unless the client says how else."""

    cwd: str | None = None
    python: str | None = None
    environ: dict[str, str] | None = None
    limits: ProcessLimits | None = None
