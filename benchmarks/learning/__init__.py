"""Whether the fast engine learns what SB3's PPO learns: curves and evaluations of five seeds, compared."""
