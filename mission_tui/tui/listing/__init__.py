"""What the list of runs shows: which runs, in which order, and how each of them stands."""
