"""Tests of how it is said: real Unix sockets."""
