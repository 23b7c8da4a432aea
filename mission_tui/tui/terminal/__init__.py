"""What is written to the terminal and how fast, and which keys come from it."""
