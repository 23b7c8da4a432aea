"""Foreign text for every place of the screen that shows some, and what says whether it got there."""
