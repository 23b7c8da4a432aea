"""What is written to the terminal and how fast, which keys come from it, and how its end is noticed."""
