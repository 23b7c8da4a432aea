"""How bytes are kept: records line by line, whole files that are old or new, and what a person wrote."""
