"""What ours is compared with: programs of other people, and loops of ours in the shape of theirs."""
