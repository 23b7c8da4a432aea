"""The command line: one file per verb, each a client of the supervisor; what is heavy is imported inside its verb."""
