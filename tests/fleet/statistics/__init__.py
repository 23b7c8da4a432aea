"""What few values say of all."""
