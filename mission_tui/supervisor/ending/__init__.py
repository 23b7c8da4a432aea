"""Ways to end: stop, kill, freeze, and what is left behind or thrown away afterwards."""
