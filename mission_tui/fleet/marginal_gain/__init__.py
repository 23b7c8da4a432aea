"""Did the extra run pay: summed steps/s before and after a run joins or leaves, and what noise allows to say. Pure."""
