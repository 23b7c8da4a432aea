"""A trainer that waits to be ended."""

import signal

if __name__ == "__main__":
    while True:
        signal.pause()
