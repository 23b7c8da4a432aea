"""What a machine can carry, what runs take of it, and whose turn it is."""
