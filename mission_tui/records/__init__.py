"""How it is kept: the files of a run directory, each whole, checksummed and with one writer."""
