"""What is seen of live runs, and what is done about it: rows, findings, notices, meters, and who trains beside whom."""
