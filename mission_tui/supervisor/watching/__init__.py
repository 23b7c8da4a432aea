"""What is seen of live runs and of the machine, and what is done about it: rows, meters, findings, notices."""
