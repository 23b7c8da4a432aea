"""How facts read, for the screen, the command line and reports: numbers, and how a run stands in a word. Pure."""
