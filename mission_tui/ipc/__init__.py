"""How it is said: messages, framing, the server side and the client side of both planes.

Nothing is imported here, so that the command line pays for neither asyncio nor the server.
"""
