"""The screen in a browser: a page and a WebSocket on loopback, and for each browser a screen of its own on a pty.

`server` answers whoever knows the address and nobody else, and `__main__` is what each pty runs. The page's script and
its font are textual-serve's; nothing here knows what the screen shows.
"""
