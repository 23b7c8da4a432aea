"""What happened when, as cells and spans on one time axis."""
