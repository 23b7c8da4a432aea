"""A comparison of runs as tables, documents, pictures and a report."""
