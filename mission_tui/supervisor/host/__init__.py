"""What this machine says of processes, leases, reservations and memory: read here, and judged elsewhere."""
