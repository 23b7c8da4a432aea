"""How bytes are kept: lines with a CRC, appended and read as they grow, and whole files that are old or new."""
