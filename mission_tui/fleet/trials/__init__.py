"""Trials of other settings: what is planned, when they are over, and what two arms of branches say; pure."""
