"""How attempts begin: a new run or the next attempt of one, what it is launched with, and when its turn comes."""
