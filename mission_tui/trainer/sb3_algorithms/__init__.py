"""SB3's and sb3-contrib's other algorithms, trained by their own operations, in periods that can be given up."""
