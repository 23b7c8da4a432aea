"""What is known of one run, folded from its events, its rows and what is seen of it live."""
