"""How it is said: messages, framing, both ends of both sockets. Each layer uses those before it, and none after it.

`replies` and `telemetry_messages` are what is said, `sockets` says where and makes lines of it, `local_asyncio` waits
for them, and `client_environment` is what a client sends of itself. `requests` name their replies; `start` makes and
finds supervisors, `listener` and `telemetry` hold a socket open. `client`, `server` and `telemetry_server` are the
ends; `async_client` is the screen's.

Nothing is imported here, so that the command line pays for neither asyncio nor the server.
"""
