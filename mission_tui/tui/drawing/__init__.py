"""How anything is drawn: colours, glyphs, numbers, names of metrics, and lines of them as strips."""
