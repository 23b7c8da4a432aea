"""Widgets: each owns drawing and nothing else; all but the text inputs use the line API."""
