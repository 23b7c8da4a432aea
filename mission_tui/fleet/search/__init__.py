"""A search for settings: over which values it goes, what is to be done of it, and what came of it. Pure."""
