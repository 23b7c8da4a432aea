"""What a launch is while it stands in the form: its words, what they mean, and what they would cost."""
