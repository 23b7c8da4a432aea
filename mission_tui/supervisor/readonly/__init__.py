"""Shows the runs of a runs root from its files, now or as they were, without a supervisor; nothing is written."""
