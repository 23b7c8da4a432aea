"""Trainings that go wrong on purpose, recorded, and how well `fleet/health` tells them from their healthy twins."""
