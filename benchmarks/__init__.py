"""Programs that measure; each stands beside its peers in one run. `make bench` runs them."""
