"""What a training says of itself: one row an update, its episodes and signals, and the same as TensorBoard events."""
