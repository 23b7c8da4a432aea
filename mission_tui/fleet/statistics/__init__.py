"""What few values say of all: quartiles, quantiles of Student's t and of the studentized range, intervals, and which of
many settings lie behind the best. Every interval and every verdict between runs comes from here; `docs/statistics.md`
says how often they hold. Knows no runs, and loads nothing until it is asked for.
"""
