"""What can be asked of the supervisor: one file per verb, named as in every room. Verbs never import each other."""
