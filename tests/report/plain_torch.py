"""A plain torch loop that learns something: the recipe of docs/reporting.md. Words: steps, and the learning rate."""

import sys

import torch as th

from mission_tui import report

th.manual_seed(1)
net = th.nn.Linear(4, 1)
optimizer = th.optim.Adam(net.parameters(), lr=float(sys.argv[2]))
steps = int(sys.argv[1])
# recipe: a plain loop
for step in range(1, steps + 1):
    x = th.randn(64, 4)
    loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        report.update(timesteps=64 * step, loss=loss, learning_rate=optimizer.param_groups[0]["lr"])
    if report.should_stop():
        break
report.phase("saving")
th.save(net.state_dict(), "net.pt")
report.checkpoint("net.pt")
# end
