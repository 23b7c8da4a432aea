"""Who trains: the process of one attempt, and the short processes around it. A layer uses those below it only.

`checking`, `playing`, `export`, `import_run` and `import_checkpoint` are short processes; `follow` and `tracking` live
beside a run.
`__main__`, `training` and `learn` are one attempt, from its spec to the last checkpoint; `orders` are what may be asked
of it meanwhile.
`state` is everything that a training goes on from: copied out of it, kept in files, and put back.
`record` (TensorBoard files included) and `periodic_evaluation` are what a training says of itself.
`building` makes of a spec what is trained, and tells what came of it.
`ppo` is PPO with its signals, in two forms with the same numbers.
`callbacks` are called as SB3 calls them; what they have counted is kept.
`vec_env` has the environments that are stepped.
`named_parts` and `spaces` find and judge what a preset names, without torch.
`failures`, `process`, `running_time`, `tree` and the like are what every process of this room may need.

Exports nothing, so that an env worker or a preflight that imports a module of this room pulls in no torch.
"""
