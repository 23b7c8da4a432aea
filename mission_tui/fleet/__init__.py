"""What we know: runs, specs, events, history, snapshots and their judgement. Pure: standard library and msgspec."""
