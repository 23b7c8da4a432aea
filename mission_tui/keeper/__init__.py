"""Who stays: the small parent of one trainer. It outlives the supervisor, ends the whole tree, records how it ended.

Standard library only, few imports and little memory, because every live run carries one.
"""
