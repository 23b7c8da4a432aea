"""Tests of the screen: a fake supervisor, a frozen clock, and keys."""
