"""What is known of runs. Pure: standard library and msgspec. Each layer uses those before it, and none after it.

`text`, `windows`, `statistics`, `ranges`, `process_limits` know no runs. `specs` are what is asked for. `resume`
judges going on with another spec, `launch_plan` names and counts what a launch makes. `events` are the facts:
journaled, written by a trainer, or seen live. `strip` and `phases` say who was in which phase when. `history` folds
one run from its facts. `health`, `capacity`, `marginal_gain` and `trials` say whether it learns, what a machine can
carry, what one more run brings, what other settings do. `views` are what is shown. `store`, `comparison` (of its
`comparison_sides`) and `timed_runs` put runs together: live, side by side, timed. `commands` is what can be asked
of them. `tuning` searches the fastest training, on which device too, and `search` is what came of a search for
settings.
"""
