"""Did the extra run pay: summed steps per second before and after one joins or leaves, and what noise lets us say."""

from mission_tui.fleet.paying.payoff import CONCLUSIVE, Payoff, payoff_sentence

__all__ = ["CONCLUSIVE", "Payoff", "payoff_sentence"]
