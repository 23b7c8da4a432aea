"""What a run directory is: its layout, each of its files as values, and how runs are compared and thrown away."""
