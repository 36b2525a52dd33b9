"""Trains a policy that must remember: a cue at the start of a corridor names the door to take at its end.

The cue is shown at the first step of an episode only, so a policy without memory finds the right one of four
doors one time in four. Corridors have different lengths; episodes end, and new ones begin, anywhere in a
rollout. Acting goes one ``step`` at a time. Learning (A2C) then runs the whole rollout ``[T, B]`` in one
call: ``resets`` says where episodes begin, and the state of the rollout before is where it starts.

    python examples/recurrent_policy.py
"""

import argparse
import time
from typing import NamedTuple

import torch
from torch.nn import functional as F

import rnncompat

DOORS = 4
AHEAD = DOORS  # the actions: a door each, and ahead
SHORTEST, LONGEST = 4, 12
WORLDS = 64
STEPS = 48
HIDDEN = 32
RATE = 5e-3
DISCOUNT = 0.95
GOAL = 0.95


# ---- the environment --------------------------------------------------------------------------------------


class Corridors:
    """B corridors side by side, each with a cue at its start and four doors at its end.

    At the end a door ends the episode, with reward 1 if it is the one that the cue named, else 0. On the
    way a door costs 0.1; ahead at the end does nothing. A new episode begins by itself.
    """

    features = DOORS + 1

    def __init__(self, batch, seed):
        self.random = torch.Generator().manual_seed(seed)
        self.cue, self.length, self.place, self.age = torch.zeros(4, batch, dtype=torch.int64).unbind(0)
        self.begin(torch.ones(batch, dtype=torch.bool))

    def begin(self, rows):
        """Starts an episode where *rows* ``[B]`` says so."""
        cue = torch.randint(DOORS, rows.shape, generator=self.random)
        length = torch.randint(SHORTEST, LONGEST + 1, rows.shape, generator=self.random)
        self.cue, self.length = torch.where(rows, cue, self.cue), torch.where(rows, length, self.length)
        self.place, self.age = self.place.masked_fill(rows, 0), self.age.masked_fill(rows, 0)

    def observe(self):
        """``[B, 5]``: the cue if this is the first step, and whether this is the end of the corridor."""
        cue = F.one_hot(self.cue, DOORS) * (self.age == 0)[:, None]
        return torch.cat([cue, (self.place == self.length)[:, None]], 1).float()

    def step(self, action):
        """Takes an action ``[B]`` in each; returns the rewards and which episodes ended."""
        at_end, ahead = self.place == self.length, action == AHEAD
        ended = at_end & ~ahead
        reward = (ended & (action == self.cue)).float() - 0.1 * (~at_end & ~ahead)
        self.place, self.age = self.place + (ahead & ~at_end), self.age + 1
        self.begin(ended)
        return reward, ended


# ---- the policy -------------------------------------------------------------------------------------------


class Policy(torch.nn.Module):
    """Scores of the actions and the value of the situation, from all that was seen in the episode."""

    def __init__(self):
        super().__init__()
        self.rnn = rnncompat.LSTM(Corridors.features, HIDDEN)
        self.readout = torch.nn.Linear(HIDDEN, DOORS + 2)

    def forward(self, x, state, resets):
        """A rollout ``[T, B, 5]`` with the steps ``[T, B]`` at which episodes begin, in one call."""
        output, _ = self.rnn(x, state, resets=resets)
        return self.read(output)

    def step(self, x, state, first):
        """One step ``[B, 5]``; rows where *first* ``[B]`` is True begin anew."""
        output, state = self.rnn.step(x, state.reset(first))
        return *self.read(output), state

    def read(self, output):
        """Scores ``[..., 5]`` and values ``[...]``."""
        read = self.readout(output)
        return read[..., :-1], read[..., -1]


class Rollout(NamedTuple):
    """What happened in STEPS steps of all worlds, ``[T, B]`` each, and the states before and after."""

    x: torch.Tensor
    first: torch.Tensor
    actions: torch.Tensor
    rewards: torch.Tensor
    ended: torch.Tensor
    probabilities: torch.Tensor
    before: rnncompat.RNNState
    after: rnncompat.RNNState


@torch.no_grad()
def roll(policy, world, state, steps=STEPS, *, forget=False):
    """Acts for some steps; with *forget*, as if each step were the first."""
    taken, before = [], state
    for _ in range(steps):
        x, first = world.observe(), world.age == 0
        scores, _, state = policy.step(x, state, torch.ones_like(first) if forget else first)
        probabilities = scores.softmax(-1)  # [B, 5]
        actions = torch.multinomial(probabilities, 1, generator=world.random).squeeze(1)
        taken.append((x, first, actions, *world.step(actions), probabilities))
    return Rollout(*(torch.stack(column) for column in zip(*taken, strict=True)), before, state)


def success(policy, seed, *, forget=False):
    """How many of the episodes that ended did so at the right door, in worlds never seen before."""
    world = Corridors(WORLDS, seed)
    state = rnncompat.RNNState.zeros(policy.rnn.descriptor, WORLDS)
    rollout = roll(policy, world, state, 500, forget=forget)
    return (rollout.rewards[rollout.ended] == 1).float().mean().item()


# ---- learning ---------------------------------------------------------------------------------------------


def returns_of(rollout, value):
    """Discounted sums of rewards ``[T, B]``, cut where episodes end; *value* ``[B]`` stands for what follows."""
    returns = []
    for reward, ended in zip(rollout.rewards.flip(0), rollout.ended.flip(0), strict=True):
        value = reward + DISCOUNT * value.masked_fill(ended, 0.0)
        returns.append(value)
    return torch.stack(returns).flip(0)


def loss_of(policy, rollout, following):
    """The loss of A2C on a whole rollout, and how far its probabilities are from those of the steps."""
    scores, values = policy(rollout.x, rollout.before, rollout.first)
    returns = returns_of(rollout, following)
    log_probabilities = scores.log_softmax(-1)  # [T, B, 5]
    taken = log_probabilities.gather(-1, rollout.actions[..., None]).squeeze(-1)
    entropy = -(log_probabilities.exp() * log_probabilities).sum(-1)
    advantage = (returns - values).detach()
    loss = -(taken * advantage) + 0.5 * (returns - values).square() - 0.01 * entropy
    return loss.mean(), (log_probabilities.exp() - rollout.probabilities).abs().max().item()


def train(policy, rollouts):
    """Trains in place; returns the largest difference of probabilities, one call - step by step."""
    world = Corridors(WORLDS, seed=1)
    state = rnncompat.RNNState.zeros(policy.rnn.descriptor, WORLDS)
    optimizer = torch.optim.Adam(policy.parameters(), RATE)
    begin, worst = time.perf_counter(), 0.0
    for number in range(1, rollouts + 1):
        rollout = roll(policy, world, state)
        state = rollout.after
        with torch.no_grad():
            _, following, _ = policy.step(world.observe(), state, world.age == 0)
        loss, difference = loss_of(policy, rollout, following)
        worst = max(worst, difference)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        if number % max(1, rollouts // 8) == 0:
            right = (rollout.rewards[rollout.ended] == 1).float().mean().item()
            spent = time.perf_counter() - begin
            print(
                f"  rollout {number:3d}/{rollouts}  {int(rollout.ended.sum()):3d} episodes  "
                f"right door {right:.3f}  {spent:5.1f} s",
                flush=True,
            )
    return worst


def main(rollouts):
    """Trains, and measures before and after."""
    torch.manual_seed(0)
    policy = Policy()
    before = success(policy, seed=2)
    print(f"{WORLDS} corridors of {SHORTEST} to {LONGEST} steps, rollouts of {STEPS} steps:")
    difference = train(policy, rollouts)
    after, forgetful = success(policy, seed=2), success(policy, seed=2, forget=True)
    print("\nEpisodes that end at the right door, in worlds never seen:")
    print(f"  before                         {before:.3f}")
    print(f"  after                          {after:.3f}   (goal {GOAL}; without memory 0.25)")
    print(f"  after, made to forget          {forgetful:.3f}")
    print("Probabilities of the actions:")
    print(f"  largest difference             {difference:.1e} one call - step by step (goal 1e-04)")
    if not (after >= GOAL and difference <= 1e-4):
        raise SystemExit("The example missed its goal.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rollouts", type=int, default=800, help="rollouts to learn from (default 800)")
    torch.set_num_threads(1)  # the matrices are small: a second thread would only wait
    main(parser.parse_args().rollouts)
