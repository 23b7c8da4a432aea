"""Everything a training goes on from: copied out of it, kept in files, and put back."""
