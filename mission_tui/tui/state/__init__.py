"""What the screen knows and requests, and the app context that gives access to it. Nothing here draws."""
