"""What verbs print: tables, documents and lines of progress, for people and for programs."""
