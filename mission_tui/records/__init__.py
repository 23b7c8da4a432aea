"""How it is kept: the files of a run directory, each whole, checksummed and with one writer.

`atomic`, `jsonl` and `given_files` keep and read bytes, whatever these say; the modules beside them keep what belongs
to no run. `runs` are run directories, `logs` training logs of anybody, read as ours. `sb3_run` is a folder that stock
Stable-Baselines3 left.
"""
