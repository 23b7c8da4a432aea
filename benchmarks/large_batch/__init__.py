"""Source 004's story on MissionGym: what a rollout eight times as large does, and what auto-scaling mends."""
