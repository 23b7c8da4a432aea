"""From launch to end: room and turn, first and further attempts, adoption of those that live, outcome, restarts."""
