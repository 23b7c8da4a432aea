"""A search for settings: a command that is supervised like any run. It asks Optuna for settings, launches trials as
runs of its group, reads their rows, and says what came of it.

`plan` is what it is to do, `study` what is known, in Optuna's file; `driver` asks for runs, and is the loop over both.
What came of it (`mission_tui/fleet/search.py`) is known to whoever shows it.
"""
