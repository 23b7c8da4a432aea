"""The screen: the only room that imports Textual. `entry.run` is its door; importing the package imports nothing."""
