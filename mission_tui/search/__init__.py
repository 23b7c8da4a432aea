"""The driver of a search: a command that is supervised like any run. It asks Optuna for settings, launches trials as
runs of its group, reads their rows, and says what came of it.

`study` is what is known, in Optuna's file; `driver` asks for runs, and is the loop over both.
"""
