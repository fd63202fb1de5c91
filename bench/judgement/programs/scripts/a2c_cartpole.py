#!/usr/bin/env python
"""Synchronous advantage actor-critic on a vectorised cart-pole."""
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

NUM_ENVS = 24
ROLLOUT = 8
GAMMA = 0.99


class VecCartPole:
    def __init__(self, n, seed=0):
        self.rng = np.random.default_rng(seed)
        self.state = self.rng.uniform(-0.05, 0.05, (n, 4)).astype(np.float32)
        self.age = np.zeros(n, dtype=np.int64)

    def step(self, action):
        x, dx, th, dth = self.state.T
        force = np.where(action == 1, 10.0, -10.0)
        sin, cos = np.sin(th), np.cos(th)
        tmp = (force + 0.05 * dth**2 * sin) / 1.1
        ath = (9.8 * sin - cos * tmp) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
        ax = tmp - 0.05 * ath * cos / 1.1
        dt = 0.02
        self.state = np.stack([x + dt * dx, dx + dt * ax, th + dt * dth, dth + dt * ath], 1).astype(np.float32)
        self.age += 1
        done = (np.abs(self.state[:, 0]) > 2.4) | (np.abs(self.state[:, 2]) > 0.21) | (self.age >= 500)
        n = int(done.sum())
        if n:
            self.state[done] = self.rng.uniform(-0.05, 0.05, (n, 4)).astype(np.float32)
            self.age[done] = 0
        return self.state.copy(), np.ones(len(done), dtype=np.float32), done


class Agent(nn.Module):
    def __init__(self, obs_dim=4, actions=2, hidden=128):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.pi = nn.Linear(hidden, actions)
        self.v = nn.Linear(hidden, 1)

    def forward(self, obs):
        h = self.body(obs)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)

    @torch.no_grad()
    def act(self, obs):
        dist, _ = self(torch.as_tensor(obs))
        return dist.sample().numpy()


class Rollout:
    def __init__(self, env, agent):
        self.env, self.agent = env, agent
        self.obs = env.state.copy()

    def collect(self, steps):
        obs, act, rew, done = [], [], [], []
        for _ in range(steps):
            actions = np.array([self.agent.act(o) for o in self.obs])
            nxt, r, d = self.env.step(actions)
            obs.append(self.obs)
            act.append(actions)
            rew.append(r)
            done.append(d)
            self.obs = nxt
        stack = lambda xs: torch.from_numpy(np.stack(xs))
        return stack(obs), stack(act), stack(rew), stack(done)


def returns_of(rew, done, last_value):
    out = torch.zeros_like(rew)
    running = last_value
    for t in range(len(rew) - 1, -1, -1):
        running = rew[t] + GAMMA * running * (~done[t])
        out[t] = running
    return out


def main():
    torch.manual_seed(3)
    agent = Agent()
    opt = torch.optim.RMSprop(agent.parameters(), lr=7e-4, eps=1e-5)
    rollout = Rollout(VecCartPole(NUM_ENVS), agent)
    for update in range(100_000_000):
        obs, act, rew, done = rollout.collect(ROLLOUT)
        with torch.no_grad():
            _, last = agent(torch.from_numpy(rollout.obs))
        ret = returns_of(rew, done, last)
        dist, value = agent(obs.flatten(0, 1))
        adv = ret.flatten() - value
        pg = -(dist.log_prob(act.flatten()) * adv.detach()).mean()
        loss = pg + 0.5 * adv.pow(2).mean() - 0.01 * dist.entropy().mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
        opt.step()
        if update % 200 == 0:
            print(f"update {update} loss {loss.item():.3f} mean age {rollout.env.age.mean():.1f}", flush=True)


if __name__ == "__main__":
    main()
