"""PPO in pure JAX: environment, rollouts and updates are one compiled program, as PureJaxRL has it, which speaks to the
outside by a callback alone. The lines with `report` are all that mission-tui needs. Words: updates.
"""

# mypy: ignore-errors

import sys
from functools import partial

import jax
import jax.numpy as jnp

from mission_tui import report

LANES, STEPS, EPOCHS, MINIBATCHES, CLIP, RATE = 16, 64, 4, 4, 0.2, 2.5e-3
UPDATES = int(sys.argv[1])
CHUNK = 10  # updates in one call of the compiled program: a stop is obeyed after so many


def fresh(key):
    return jnp.concatenate([jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05), jnp.zeros(1)])


def step(state, action, key):
    """CartPole-v1: four numbers of the pole, and the steps so far."""
    x, v, angle, turn, t = state
    force, cos, sin = jnp.where(action == 1, 10.0, -10.0), jnp.cos(angle), jnp.sin(angle)
    push = (force + 0.05 * turn**2 * sin) / 1.1
    lean = (9.8 * sin - cos * push) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
    go = push - 0.05 * lean * cos / 1.1
    after = jnp.array([x + 0.02 * v, v + 0.02 * go, angle + 0.02 * turn, turn + 0.02 * lean, t + 1.0])
    done = (jnp.abs(after[0]) > 2.4) | (jnp.abs(after[2]) > 0.2095) | (after[4] >= 500.0)
    return jnp.where(done, fresh(key), after), done, after[4]


def layer(key, inputs, outputs, scale):
    return {"w": jax.nn.initializers.orthogonal(scale)(key, (inputs, outputs)), "b": jnp.zeros(outputs)}


def judged(net, obs):
    """Logits and value of a batch of observations."""
    hidden = [jnp.tanh(obs @ net[name]["w"] + net[name]["b"]) for name in ("pi", "vf")]
    logits, value = (h @ net[n]["w"] + net[n]["b"] for h, n in zip(hidden, ("pi_out", "vf_out"), strict=True))
    return logits, value[..., 0]


# recipe: the callback
def told(info):
    report.update(
        timesteps=int(info["timesteps"]),
        total_timesteps=UPDATES * LANES * STEPS,
        approx_kl=info["approx_kl"],
        clip_fraction=info["clip_fraction"],
        entropy_loss=-info["entropy"],
        value_loss=info["value_loss"],
        **({"rollout/ep_rew_mean": info["returns"] / info["episodes"]} if info["episodes"] else {}),
    )


# end


def loss(net, batch):
    obs, action, said, gain, wanted = batch
    logits, value = judged(net, obs)
    chances = jax.nn.log_softmax(logits)
    log_ratio = jnp.take_along_axis(chances, action[:, None], 1)[:, 0] - said
    ratio = jnp.exp(log_ratio)
    gain = (gain - gain.mean()) / (gain.std() + 1e-8)
    policy = -jnp.minimum(gain * ratio, gain * jnp.clip(ratio, 1 - CLIP, 1 + CLIP)).mean()
    entropy, value_loss = -(jnp.exp(chances) * chances).sum(1).mean(), ((value - wanted) ** 2).mean()
    found = {
        "approx_kl": ((ratio - 1) - log_ratio).mean(),
        "clip_fraction": (jnp.abs(ratio - 1) > CLIP).mean(),
        "entropy": entropy,
        "value_loss": value_loss,
    }
    return policy + 0.5 * value_loss - 0.01 * entropy, found


def learn(carry, batch):
    net, mean, square, count = carry
    grads, found = jax.grad(loss, has_aux=True)(net, batch)
    count = count + 1
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, grads)
    square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, square, grads)
    rate = RATE * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
    net = jax.tree.map(lambda n, m, s: n - rate * m / (jnp.sqrt(s) + 1e-5), net, mean, square)
    return (net, mean, square, count), found


def rollout(net, carry, key):
    states, _ = carry
    keys = jax.random.split(key, LANES + 1)
    obs = states[:, :4]
    logits, value = judged(net, obs)
    action = jax.random.categorical(keys[0], logits)
    said = jnp.take_along_axis(jax.nn.log_softmax(logits), action[:, None], 1)[:, 0]
    states, done, length = jax.vmap(step)(states, action, keys[1:])
    return (states, done), (obs, action, said, value, done, length)


def update(runner, _):
    carry, states, key, steps = runner
    key, first, second = jax.random.split(key, 3)
    net = carry[0]
    (states, _), kept = jax.lax.scan(
        partial(rollout, net), (states, jnp.zeros(LANES, bool)), jax.random.split(first, STEPS)
    )
    obs, action, said, value, done, length = kept

    def back(following, at):
        running, after = following
        here, over = at
        running = 1.0 + 0.99 * after * (1 - over) - here + 0.99 * 0.95 * (1 - over) * running
        return (running, here), running

    last = judged(net, states[:, :4])[1]
    over = done.astype(jnp.float32)
    _, gain = jax.lax.scan(back, (jnp.zeros(LANES), last), (value, over), reverse=True)
    whole = (obs, action, said, gain, gain + value)
    flat = jax.tree.map(lambda part: part.reshape(LANES * STEPS, *part.shape[2:]), whole)

    def epoch(carry, key):
        order = jax.random.permutation(key, LANES * STEPS)
        batches = jax.tree.map(lambda part: part[order].reshape(MINIBATCHES, -1, *part.shape[1:]), flat)
        return jax.lax.scan(learn, carry, batches)

    carry, found = jax.lax.scan(epoch, carry, jax.random.split(second, EPOCHS))
    steps = steps + LANES * STEPS
    info = jax.tree.map(lambda part: part[-1].mean(), found)
    info |= {"timesteps": steps, "episodes": done.sum(), "returns": (length * done).sum()}
    # recipe: at the end of an update, inside the compiled program
    jax.debug.callback(told, info, ordered=True)
    # end
    return (carry, states, key, steps), None


keys = jax.random.split(jax.random.PRNGKey(1), 6)
shapes = {"pi": (4, 64, 1.4), "vf": (4, 64, 1.4), "pi_out": (64, 2, 0.01), "vf_out": (64, 1, 1.0)}
net = {name: layer(key, *shape) for key, (name, shape) in zip(keys, shapes.items(), strict=False)}
zeros = jax.tree.map(jnp.zeros_like, net)
states = jax.vmap(fresh)(jax.random.split(keys[4], LANES))
runner = ((net, zeros, zeros, jnp.zeros(())), states, keys[5], jnp.zeros((), jnp.int32))
# recipe: the loop
train = jax.jit(lambda runner: jax.lax.scan(update, runner, None, CHUNK)[0])
for _ in range(-(-UPDATES // CHUNK)):
    if report.should_stop():  # asked here, outside of what is compiled
        break
    runner = jax.block_until_ready(train(runner))
# end
jax.effects_barrier()
