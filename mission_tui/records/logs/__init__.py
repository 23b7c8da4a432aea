"""Training logs that anyone may have written, read into the records that the health rules judge."""
