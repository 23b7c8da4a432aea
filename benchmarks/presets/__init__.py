"""The shipped presets on MissionGym, each with its own numbers over its own budget, as far as a machine carries it."""
