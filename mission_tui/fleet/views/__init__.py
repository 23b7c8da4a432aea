"""What everyone is shown: frozen views of runs and of the fleet, and the words that name them."""
