"""Workarounds for Textual: each module names the version and what it costs without."""
