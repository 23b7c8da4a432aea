"""Did the extra run pay: summed steps/s before and after a run joins or leaves, and what noise allows to say. Pure."""

from mission_tui.fleet.paying.payoff import CONCLUSIVE, Payoff, payoff_sentence

__all__ = ["CONCLUSIVE", "Payoff", "payoff_sentence"]
