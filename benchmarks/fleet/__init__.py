"""Campaigns with a real supervisor: what several runs at once reach and cost, and how the screen is meanwhile."""
