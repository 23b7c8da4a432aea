"""Runs on a real Ray of two nodes on this machine, with a token, in an environment of its own."""
