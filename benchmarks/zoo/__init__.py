"""The RL zoo's published table, trained again under our own supervisor with the zoo's settings."""
