"""The search for the fastest way to train a preset on one machine: what is tried, what is dropped, what is kept. Pure.

Every process that speaks to a supervisor knows `record`; the rest is imported by its module, by those who tune.
"""
