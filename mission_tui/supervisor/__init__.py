"""Who watches: the background process that knows every run of one runs root, rebuilt from disk at any time.

Its rooms are layers, each on those named before it. `host/` is what the machine says: processes, leases, meters. `gpu/`
is the probe, a process of its own, and who watches it. `launchers/` carry attempts out and say how they stand, with
whose Python, folder and variables. `runs/` holds the runs with their journals, and the state of the machine.
`readonly/` answers without changing anything, and serves from the files alone. `ending/` ends, freezes and removes.
`watching/` takes in rows, findings and meters. `lifecycle/` starts attempts, adopts those that live and says how they
ended. `verbs/` carry out requests. Above them the dispatcher, the telemetry handler and the clock say when.
"""
