"""Who trains: the process of one attempt, and the short processes preflight, evaluate and export.

Exports nothing, so that an env worker or a preflight that imports a module of this room pulls in no torch.
"""
