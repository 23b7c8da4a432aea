"""The tabs of a run: each section turns a run's view and dossier into lines. No widgets, no requests."""
