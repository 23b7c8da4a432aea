"""Did the extra run pay: summed steps per second before and after a run joins or leaves, and what noise allows to say."""

from mission_tui.fleet.paying.payoff import CONCLUSIVE, Payoff, payoff_sentence

__all__ = ["CONCLUSIVE", "Payoff", "payoff_sentence"]
