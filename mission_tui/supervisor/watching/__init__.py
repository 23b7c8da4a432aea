"""What is seen of live runs, and what is done about it: rows, findings, notices, meters, runs beside each other."""
