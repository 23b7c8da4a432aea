"""Episodes played with a policy: evaluations, shown episodes, and the probe of a resume."""
