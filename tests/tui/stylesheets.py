"""Stylesheets parsed once for all the apps of a test process: anew for each, they are an eighth of its cost."""

from __future__ import annotations

from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.css.types import CSSLocation

__all__ = ["share_rules"]

_RULES: dict[tuple[object, ...], list[RuleSet]] = {}
_parse = Stylesheet._parse_rules


def share_rules() -> None:
    """Have every stylesheet take rules that another one of the same variables has parsed; nobody changes them."""
    Stylesheet._parse_rules = _parse_once  # type: ignore[method-assign]


def _parse_once(
    self: Stylesheet,
    css: str,
    read_from: CSSLocation,
    is_default_rules: bool = False,
    tie_breaker: int = 0,
    scope: str = "",
) -> list[RuleSet]:
    told = (css, read_from, is_default_rules, tie_breaker, scope)
    key = (*told, *sorted(self._variables.items()))
    if key not in _RULES:
        _RULES[key] = _parse(self, *told)
    return _RULES[key]
