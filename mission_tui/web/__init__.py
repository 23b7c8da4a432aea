"""The screen in a browser: a page and a WebSocket on loopback, and for each browser a screen of its own on a pty.

`server` answers whoever knows the address and nobody else, `screen_process` is one screen, and `__main__` what that
runs. The page's script and its font are textual-serve's; nothing here knows what the screen shows.
"""
