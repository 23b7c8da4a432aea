"""The runs as the supervisor holds them: the registry with its journals, and a handle for each run that lives.

Nothing here starts or ends a run. `registry` is for whoever needs only runs and their journals, `machine_state` for
whoever needs only meters, `variables` for secrets; `core` is all of it. `catalog` and `run_on_disk` serve readers too.
"""
