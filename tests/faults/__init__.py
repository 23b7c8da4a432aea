"""The fault suite: a test per row of `docs/faults.md` for CI, and the long campaign of `make faults`."""
