"""What the files of a runs root say, read line by line without a word of ours: what a screen is held against."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Account", "account_of", "accounts"]

RETURN = "rollout/ep_rew_mean"


@dataclass
class Account:
    """One run as its two journals have it, at the time of reading."""

    name: str = ""
    ended_t: float | None = None
    outcome: str | None = None
    parked: bool = False
    waits: str = ""
    attempts: int = 0
    restarts: list[float] = field(default_factory=list)
    reboots: list[float] = field(default_factory=list)
    findings: dict[str, dict[str, Any]] = field(default_factory=dict)
    timesteps: int | None = None
    total: int | None = None
    returns: list[tuple[int, float]] = field(default_factory=list)

    @property
    def over(self) -> bool:
        """Ended, with no other attempt to come by itself."""
        return self.ended_t is not None and not self.waits

    @property
    def best(self) -> float | None:
        """The best mean return of any update that counts."""
        finite = [value for _, value in self.returns if math.isfinite(value)]
        return max(finite, default=None)

    @property
    def stories(self) -> list[dict[str, Any]]:
        """The findings with each symptom left out that stands under its cause, which is as grave as they are."""
        told = []
        for finding in self.findings.values():
            cause = self.findings.get(finding.get("part_of", ""))
            if cause is None or not (cause["state"] == "open" or finding["state"] == "cleared"):
                below = [
                    it
                    for it in self.findings.values()
                    if it.get("part_of") == finding["id"] and it["state"] == finding["state"]
                ]
                severities = {it["severity"] for it in (finding, *below)}
                told.append({**finding, "grave": severities != {"info"}})
        return told


def accounts(root: Path) -> dict[str, Account]:
    """Every run of the root by its name."""
    found = [account_of(folder) for folder in sorted(root.glob("2*")) if (folder / "events.jsonl").exists()]
    return {account.name: account for account in found}


def account_of(run: Path) -> Account:
    """One run directory. A line that is being written is not there yet."""
    account = Account()
    for event in _lines(run / "events.jsonl"):
        _hear(account, event)
    for row in _lines(run / "metrics.jsonl"):
        if row["kind"] == "start":
            account.returns = [each for each in account.returns if each[0] <= row.get("from_update", 0)]
            account.timesteps = row.get("from_timesteps") or None
        elif row["kind"] == "update":
            account.timesteps = row["timesteps"]
            if RETURN in row["metrics"]:
                account.returns.append((row["update"], float(row["metrics"][RETURN])))
    return account


def _hear(account: Account, event: dict[str, Any]) -> None:
    match event["kind"]:
        case "created":
            account.name = event["name"]
        case "attempt":
            account.attempts += 1
            account.total = event.get("total_timesteps", account.total)
            if event.get("reboots") or event.get("restart"):
                (account.reboots if account.waits == "reboot" else account.restarts).append(event["t"])
            account.ended_t, account.outcome, account.parked, account.waits = None, None, False, ""
        case "ended":
            account.ended_t, account.outcome = event["t"], event["outcome"]["outcome"]
        case "restart_due":
            account.waits = event.get("after", "failure")
        case "asked" if event["verb"] in ("stop", "kill") and account.ended_t is not None:
            account.waits = ""
        case "parked":
            account.waits, account.parked = "", True
        case "finding":
            account.findings[event["finding"]["id"]] = event["finding"]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    raw = path.read_bytes() if path.exists() else b""
    for line in raw.split(b"\n")[:-1]:
        if line:
            yield json.loads(line)
