"""Who watches: the background process that knows every run of one runs root, rebuilt from disk at any time."""
