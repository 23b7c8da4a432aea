"""A folder for the module path of processes under test: what stands here is imported by each of them at its start."""
