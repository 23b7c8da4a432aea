"""The command line: verbs by subject, each a client of the supervisor; what is heavy is imported inside its verb.

`session` is the call, `options` its words, `terminal_output` and `errors` what is written, `tables` what several verbs
print. `plan`, `presets`, `launch_price`, `follow_runs` and `answers` are what verbs do alike, `screen` opens the
screen, `root` imports one verb.
"""
