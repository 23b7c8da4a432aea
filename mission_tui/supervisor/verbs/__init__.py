"""What can be asked of the supervisor, by subject; most of it changes something. Verbs never import each other."""
