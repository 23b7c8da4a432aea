"""What only reads: answers that change nothing, from a catalog of runs, which the supervisor gives as well; and servers
that show the runs of a runs root from its files, now or as they were, without a supervisor. Nothing is written.
"""
