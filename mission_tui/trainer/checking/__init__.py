"""Whether a spec can be trained here, found out before it is."""
