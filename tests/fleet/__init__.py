"""Tests of what we know: pure and fast."""
