"""Paces what is written to the terminal, and keeps keys for the screen they were typed for."""
