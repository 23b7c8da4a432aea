"""What runs that are made to be measured, by `bench` and `tune`, took of the machine and left."""
