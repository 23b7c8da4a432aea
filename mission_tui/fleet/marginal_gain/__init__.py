"""Did the extra run pay: summed steps/s before and after a run joins or leaves, and what noise allows to say. Pure."""

from mission_tui.fleet.marginal_gain.gain import CONCLUSIVE, MarginalGain, gain_sentence

__all__ = ["CONCLUSIVE", "MarginalGain", "gain_sentence"]
