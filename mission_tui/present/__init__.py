"""How facts read, for the screen, the command line and reports: numbers, costs, and how a run stands. Pure."""
