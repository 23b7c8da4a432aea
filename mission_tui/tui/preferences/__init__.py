"""What a person chose about the look of the screen, found again the next time."""
