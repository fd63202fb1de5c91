"""PPO on a batch of cart-pole environments simulated in numpy."""
import dataclasses
import logging
from collections import deque

import numpy as np
import torch
import torch.nn as nn

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
log = logging.getLogger("ppo")


@dataclasses.dataclass
class Args:
    envs: int = 128
    horizon: int = 64
    epochs: int = 4
    minibatch: int = 2048
    gamma: float = 0.99
    lam: float = 0.95
    clip: float = 0.2
    entropy: float = 0.01
    value_weight: float = 0.5
    lr: float = 3e-4
    updates: int = 100_000
    hidden: int = 288


class CartPoles:
    """All carts advance at once; finished ones start again by themselves."""

    def __init__(self, count, seed):
        self.rng = np.random.default_rng(seed)
        self.state = self._fresh(count)
        self.age = np.zeros(count, dtype=np.int64)

    def _fresh(self, count):
        return self.rng.uniform(-0.05, 0.05, (count, 4)).astype(np.float32)

    def step(self, action):
        x, v, angle, spin = self.state.T
        force = np.where(action == 1, 10.0, -10.0)
        sin, cos = np.sin(angle), np.cos(angle)
        temp = (force + 0.05 * spin**2 * sin) / 1.1
        spin_acc = (9.8 * sin - cos * temp) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
        acc = temp - 0.05 * spin_acc * cos / 1.1
        self.state = np.stack([x + 0.02 * v, v + 0.02 * acc, angle + 0.02 * spin, spin + 0.02 * spin_acc], 1).astype(np.float32)
        self.age += 1
        done = (np.abs(self.state[:, 0]) > 2.4) | (np.abs(self.state[:, 2]) > 0.21) | (self.age >= 500)
        lengths = self.age[done].tolist()
        self.state[done] = self._fresh(int(done.sum()))
        self.age[done] = 0
        return self.state.copy(), np.ones(len(done), dtype=np.float32), done.astype(np.float32), lengths


class ActorCritic(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(4, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 2))
        self.critic = nn.Sequential(nn.Linear(4, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, obs):
        return self.actor(obs).log_softmax(-1), self.critic(obs).squeeze(-1)


@torch.no_grad()
def collect(env, model, args, finished):
    obs = torch.empty(args.horizon, args.envs, 4)
    actions = torch.empty(args.horizon, args.envs, dtype=torch.long)
    logps, values = torch.empty(args.horizon, args.envs), torch.empty(args.horizon + 1, args.envs)
    rewards, dones = np.empty((args.horizon, args.envs), np.float32), np.empty((args.horizon, args.envs), np.float32)
    now = torch.from_numpy(env.state.copy())
    for t in range(args.horizon):
        logits, values[t] = model(now)
        action = torch.multinomial(logits.exp(), 1)
        obs[t], actions[t] = now, action.squeeze(1)
        logps[t] = logits.gather(1, action).squeeze(1)
        state, rewards[t], dones[t], lengths = env.step(actions[t].numpy())
        finished.extend(lengths)
        now = torch.from_numpy(state)
    values[-1] = model(now)[1]
    return obs.flatten(0, 1), actions.flatten(), logps.flatten(), values.numpy(), rewards, dones


def advantages_of(values, rewards, dones, args):
    advantage = np.zeros_like(rewards)
    last = np.zeros(args.envs, dtype=np.float32)
    for t in reversed(range(args.horizon)):
        alive = 1.0 - dones[t]
        delta = rewards[t] + args.gamma * values[t + 1] * alive - values[t]
        last = delta + args.gamma * args.lam * alive * last
        advantage[t] = last
    return torch.from_numpy(advantage.ravel()), torch.from_numpy((advantage + values[:-1]).ravel())


def update(model, optimizer, obs, actions, old_logps, advantage, returns, args):
    for _ in range(args.epochs):
        for rows in torch.randperm(len(obs)).split(args.minibatch):
            logits, value = model(obs[rows])
            logp = logits.gather(1, actions[rows, None]).squeeze(1)
            adv = advantage[rows]
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)
            ratio = (logp - old_logps[rows]).exp()
            policy_loss = -torch.min(ratio * adv, ratio.clamp(1 - args.clip, 1 + args.clip) * adv).mean()
            value_loss = (value - returns[rows]).pow(2).mean()
            entropy = -(logits.exp() * logits).sum(-1).mean()
            loss = policy_loss + args.value_weight * value_loss - args.entropy * entropy
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
    return loss.item(), entropy.item()


def main():
    args = Args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    env, model = CartPoles(args.envs, 0), ActorCritic(args.hidden)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, eps=1e-5, fused=True)
    finished = deque(maxlen=200)
    for i in range(args.updates):
        obs, actions, logps, values, rewards, dones = collect(env, model, args, finished)
        advantage, returns = advantages_of(values, rewards, dones, args)
        loss, entropy = update(model, optimizer, obs, actions, logps, advantage, returns, args)
        if i % 5 == 0:
            log.info("update %d loss %.3f entropy %.3f length %.1f", i, loss, entropy, np.mean(finished or [0]))


if __name__ == "__main__":
    main()
