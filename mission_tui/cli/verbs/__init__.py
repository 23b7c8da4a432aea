"""The verbs, by subject, named as in every room, each a client of the supervisor. Verbs never import each other."""
