"""What is seen of live runs, and what is done about it: rows, findings, notices, and what the instruments showed."""
