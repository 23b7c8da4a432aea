"""The command line: verbs by subject, each a client of the supervisor; what is heavy is imported inside its verb."""
