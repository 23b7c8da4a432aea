"""Shells for the tests of the served screen."""

from tests.cli.conftest import quick, shell

__all__ = ["quick", "shell"]
