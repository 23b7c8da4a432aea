"""The variables of a run whose values are on no disk, found again whenever something of it is started.

`run.env_file` is read again at each start, once, and what stands there then is what counts. Other values are
remembered by the supervisor that launched the run, or by its living trainer; after both, the client that asks may have
them. What cannot be had is named, and no attempt is started without it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, structs
from msgspec.structs import replace

from mission_tui.errors import PresetError, UsageError
from mission_tui.fleet.resume.verdict import Change
from mission_tui.fleet.specs.secrecy import is_of_session, is_secret
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.text import clean
from mission_tui.records.given_files import read_env_file
from mission_tui.records.runs.attempt import LaunchOrder
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.seal import Seals
from mission_tui.supervisor.launchers.order import (
    OURS,
    VISIBLE,
    Caller,
    env_file_of,
    trainer_environ,
    with_spec_env,
    withheld_names,
)
from mission_tui.supervisor.runs.live_run import LiveRun
from mission_tui.supervisor.runs.registry import Runs

_MOST_NAMES = 6


class LackingVariablesError(PresetError):
    """A start needs variables whose values are lost."""


class RecoveredVariables(Struct, frozen=True):
    """Who launched an attempt, with every variable whose value could be had; `missing` are the others.

    `fault`: why `run.env_file` cannot be read, as a sentence; empty where it can, or where who asks gave its variables.
    """

    caller: Caller
    missing: tuple[str, ...]
    fault: str = ""

    @property
    def lack(self) -> str:
        """What cannot be had, in words that follow "waits for"; empty for nothing."""
        if self.fault:
            names = sorted(self.caller.from_file)
            held = f" (it had {', '.join(names[:_MOST_NAMES])})" if names else ""
            return clean(f"{self.fault}{held}", 400)
        if not self.missing:
            return ""
        shown = ", ".join(self.missing[:_MOST_NAMES])
        more = f" and {len(self.missing) - _MOST_NAMES} more" if len(self.missing) > _MOST_NAMES else ""
        if len(self.missing) == 1:
            return clean(f"variable {shown}: its value was only in memory", 300)
        return clean(f"variables {shown}{more}: their values were only in memory", 300)


class Variables:
    """The variables of runs whose values are on no disk. `lacking` are the orders of runs that wait because the values
    of some cannot be had.
    """

    def __init__(self, runs: Runs, seals: Seals) -> None:
        self._runs = runs
        self._seals = seals
        self._values: dict[str, dict[str, str]] = {}
        self.lacking: dict[str, LaunchOrder] = {}

    def forget(self, run_id: str) -> None:
        """The run was removed."""
        self._values.pop(run_id, None)
        self.lacking.pop(run_id, None)

    def set_values(self, run_id: str, values: dict[str, str]) -> None:
        """Remember what was read from the run's living trainer."""
        self._values[run_id] = values

    def recover(
        self, order: LaunchOrder, spec: Spec | None, asking: Mapping[str, str] | None = None
    ) -> RecoveredVariables:
        """What can be had now of the variables of `order`; `asking` is the environment of the client that asks, if any.

        A withheld value comes from the env file as it reads now, else from memory, else from `asking`. One whose name
        is no secret's may come from the client that started this supervisor.
        """
        env_file = None if spec is None else spec.run.env_file
        file: dict[str, str] = {}
        read: dict[str, Mapping[str, str]] = {}
        fault = ""
        if env_file is not None:
            try:
                file = read[env_file] = read_env_file(Path(env_file))
            except PresetError as error:
                fault = str(error)
        # What was read from the file before counts no more: it may have been changed since, on purpose.
        remembered = {
            name: order.env[name] for name in order.withheld if name in order.env and name not in order.from_file
        }
        remembered |= self._values.get(order.run, {})
        values: dict[str, str] = {}
        for name in order.withheld:
            for source in (file, remembered, asking or {}):
                if name in source:
                    values[name] = source[name]
                    break
            else:
                if name in os.environ and name not in order.from_file and not is_secret(name, os.environ[name]):
                    values[name] = os.environ[name]
        needed = order.from_file or order.withheld
        given = bool(fault) and bool(needed) and all(name in values for name in needed)
        known = {name: value for name, value in order.env.items() if name not in order.withheld}
        caller = Caller.of(structs.replace(order, env={**known, **file, **values}))
        missing = (name for name in order.withheld if name not in values and not is_of_session(name))
        return RecoveredVariables(
            replace(caller, secrets=caller.secrets | file.keys(), without_file=given, env_files=read),
            tuple(sorted(missing)),
            "" if given else fault,
        )

    def completed(self, run: LiveRun, order: LaunchOrder) -> LaunchOrder:
        """The order as it is handed to a keeper now, with every variable.

        Raises `LackingVariablesError` for what cannot be had, `PresetError` and `StorageError`.
        """
        spec = run.spec
        all_there = all(name in order.env for name in order.withheld)
        if all_there and (spec is None or spec.run.env_file is None):
            return order
        recalled = self.recover(order, spec)
        if recalled.lack:
            raise LackingVariablesError(recalled.lack)
        if spec is None:
            return structs.replace(order, env=order.env | dict(recalled.caller.environ))
        home = with_spec_env(spec, recalled.caller)
        ours = {name: order.env[name] for name in OURS if name in order.env}
        env = {**home.environ, **ours, **trainer_environ(spec)} | ({VISIBLE: order.gpu} if order.gpu else {})
        whole = structs.replace(
            order, env=env, withheld=withheld_names(env, home, spec), from_file=tuple(sorted(home.from_file))
        )
        if _on_record(whole) != _on_record(order):
            self._seals.write_order(run.dir, whole)
        return whole

    def remember(self, order: LaunchOrder) -> None:
        """Keep in memory what only the order knows: its withheld variables, but for those that the env file gives.

        Those too, where the file could not be read and a client gave them.
        """
        given = self._values.get(order.run, {})
        self._values[order.run] = {
            name: order.env[name]
            for name in order.withheld
            if name in order.env and (name not in order.from_file or name in given)
        }

    def why_it_waits(self, run_id: str) -> str:
        """Why the run waits that lacked variables when its turn came, in a sentence; empty when they can be had now."""
        order = self.lacking.get(run_id)
        if order is None:
            return ""
        lack = self.recover(order, self._runs.store.run(run_id).spec).lack
        if not lack:
            del self.lacking[run_id]
            return ""
        name = self._runs.store.view(run_id).name
        return f"waits for {lack}; put it right, or `mission-tui resume {name}` from a shell that has what is missing"

    def left_behind(self, run_id: str, caller: Caller, spec: Spec) -> tuple[Change, ...]:
        """A warning for each secret of the newest attempt that one of `caller` would not have."""
        order = self._seals.check(self._runs.run_dir(run_id), self._runs.store.run(run_id).journal.attempt).order
        try:
            file = env_file_of(spec, caller)
        except PresetError:
            return ()
        has = caller.environ.keys() | spec.run.env.keys() | file.keys()
        names = () if order is None else sorted(name for name in order.withheld if is_secret(name) and name not in has)
        why = "the attempt before had it; export it where you resume, or accept to go on without"
        return tuple(Change(f"variable {clean(name, 60)}", "set", "not set", "warn", why) for name in names)

    def supply(self, run_id: str, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Remember what the asking client has of the variables that a run waits for; their names.

        Raises `LackingVariablesError` for what is missing still.
        """
        order, spec = self.lacking[run_id], self._runs.store.run(run_id).spec
        recalled = self.recover(order, spec)
        wanted = {*recalled.missing, *(order.from_file or order.withheld if recalled.fault else ())}
        found = {name: environ[name] for name in wanted if name in environ}
        self._values[run_id] = self._values.get(run_id, {}) | found
        if lack := self.recover(order, spec).lack:
            name = self._runs.store.view(run_id).name
            raise LackingVariablesError(f"{name} lacks {lack}; your shell does not have it either")
        del self.lacking[run_id]
        return tuple(sorted(found))

    def order_of(self, run: RunDir, attempt: int) -> LaunchOrder:
        """The order that launched `attempt`. Raises `UsageError` where it cannot be read or is not what was written."""
        sealed = self._seals.check(run, attempt)
        if sealed.order is None:
            raise UsageError(f"the launch order of attempt {attempt} of {run.id} cannot be used: {sealed.foreign}")
        return sealed.order

    def recover_of(self, run: RunDir, attempt: int) -> RecoveredVariables:
        """Who launched `attempt`, and which of its variables cannot be had now. Raises as `order_of`."""
        return self.recover(self.order_of(run, attempt), self._runs.store.run(run.id).spec)

    def caller_of(self, run: RunDir, attempt: int) -> Caller:
        """Who launched `attempt`, with those of its secrets whose values can be had now. Raises as `order_of`."""
        return self.recover_of(run, attempt).caller


def _on_record(order: LaunchOrder) -> LaunchOrder:
    """What of the order is written down; the order of names says nothing."""
    said = {name: value for name, value in order.env.items() if name not in order.withheld}
    return structs.replace(order, env=said, withheld=tuple(sorted(order.withheld)))
