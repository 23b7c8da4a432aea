"""What Textual does otherwise than this screen needs it: each module names the version and what it costs."""
