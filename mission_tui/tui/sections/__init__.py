"""The tabs of a run: each section turns a run's view and data into lines. No widgets, no requests."""
