"""What this machine says of processes, leases, reservations, memory and clocks: read here, and judged elsewhere."""
