"""What is asked about runs beyond their views, and what is made of the answers."""
