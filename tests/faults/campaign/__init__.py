"""What drives the parts of `make faults`: rounds, state that survives a kill, and the report."""
