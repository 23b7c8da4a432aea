"""The verbs: one file each, named as in every room, each a client of the supervisor. Verbs never import each other."""
