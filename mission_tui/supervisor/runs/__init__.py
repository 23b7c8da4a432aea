"""The runs as the supervisor holds them: the registry, a handle for each that lives, journals and directories.

Nothing here starts or ends a run. `catalog` and `run_on_disk` serve those too who only read.
"""
