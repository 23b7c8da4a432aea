"""Commands that are not ours: their rows written for them, from their logs or from what they report."""
