"""What the machine and the processes on it take, asked of /proc and of the GPU probe: read, and judged elsewhere."""
