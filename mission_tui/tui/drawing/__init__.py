"""How anything is drawn: colours, glyphs, numbers, and lines of them as strips."""
