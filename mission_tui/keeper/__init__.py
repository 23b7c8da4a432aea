"""Who stays: the small parent of one trainer. It outlives the supervisor, ends the whole tree, records how it ended.

Where runs share a job, `pack` is the parent of their keepers. Standard library only, few imports and little memory,
because every live run carries one.
"""
