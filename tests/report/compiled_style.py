"""A training that is one compiled program, as PureJaxRL's are: chunks of it run elsewhere, and it speaks by a callback
from a thread of the compiler's own. What is compiled here is a loop of torch, so that no JAX is needed. Words: updates.
"""

# mypy: disable-error-code="no-untyped-call,no-untyped-def"

import sys
from concurrent.futures import ThreadPoolExecutor

import torch as th

from mission_tui import report

UPDATES, CHUNK, BATCH = int(sys.argv[1]), 5, 64
th.manual_seed(1)
net = th.nn.Linear(4, 1)
optimizer = th.optim.Adam(net.parameters(), lr=1e-2)


def told(info):
    report.update(timesteps=int(info["timesteps"]), total_timesteps=UPDATES * BATCH, value_loss=info["value_loss"])


def scan(done):
    """Updates `done + 1` to `done + CHUNK`."""
    for number in range(done + 1, done + CHUNK + 1):
        x = th.randn(BATCH, 4)
        loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        told({"timesteps": number * BATCH, "value_loss": loss.item()})
    return done + CHUNK


with ThreadPoolExecutor(1) as runtime:
    done = 0
    while done < UPDATES:
        if report.should_stop():  # asked here, outside of what is compiled
            break
        done = runtime.submit(scan, done).result()
