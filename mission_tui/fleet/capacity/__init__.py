"""What runs take of a machine, what it can carry, and whose turn it is."""
