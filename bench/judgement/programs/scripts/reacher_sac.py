"""Soft actor-critic on a planar arm that reaches for a target."""
import argparse
import copy
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

OBS, ACT = 10, 2


class Reacher:
    def __init__(self, seed, horizon=60):
        self.rng, self.horizon = np.random.default_rng(seed), horizon
        self.reset()

    def reset(self):
        self.angle, self.speed = self.rng.uniform(-3.1, 3.1, 2), np.zeros(2)
        self.target, self.t = self.rng.uniform(-1.2, 1.2, 2), 0
        return self.observe()

    def tip(self):
        a, b = self.angle[0], self.angle.sum()
        return np.array([np.cos(a) + np.cos(b), np.sin(a) + np.sin(b)])

    def observe(self):
        parts = [np.cos(self.angle), np.sin(self.angle), self.speed, self.target, self.target - self.tip()]
        return np.concatenate(parts).astype(np.float32)

    def step(self, action):
        self.speed = 0.9 * self.speed + 0.2 * action
        self.angle = self.angle + 0.1 * self.speed
        self.t += 1
        far = np.linalg.norm(self.target - self.tip())
        return self.observe(), -far - 0.05 * np.square(action).sum(), self.t >= self.horizon


class ReplayMemory:
    def __init__(self, capacity):
        self.capacity = capacity
        self.obs, self.next_obs = np.zeros((0, OBS), np.float32), np.zeros((0, OBS), np.float32)
        self.action, self.reward = np.zeros((0, ACT), np.float32), np.zeros(0, np.float32)

    def __len__(self):
        return len(self.reward)

    def add(self, obs, action, reward, next_obs):
        keep = self.capacity
        self.obs = np.append(self.obs, np.reshape(obs, (-1, OBS)), axis=0)[-keep:]
        self.action = np.append(self.action, np.reshape(action, (-1, ACT)), axis=0)[-keep:]
        self.reward = np.append(self.reward, np.reshape(reward, -1).astype(np.float32))[-keep:]
        self.next_obs = np.append(self.next_obs, np.reshape(next_obs, (-1, OBS)), axis=0)[-keep:]

    def sample(self, count, rng):
        rows = rng.integers(0, len(self), count)
        return tuple(torch.from_numpy(part[rows]) for part in (self.obs, self.action, self.reward, self.next_obs))


def mlp(inp, out, width=192):
    return nn.Sequential(nn.Linear(inp, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, out))


class Critics(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = mlp(OBS + ACT, 1), mlp(OBS + ACT, 1)

    def forward(self, obs, action):
        x = torch.cat([obs, action], -1)
        return self.first(x).squeeze(-1), self.second(x).squeeze(-1)


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(OBS, 2 * ACT)

    def forward(self, obs):
        mean, log_std = self.net(obs).chunk(2, -1)
        log_std = log_std.clamp(-5, 1)
        noise = torch.randn_like(mean)
        action = torch.tanh(mean + log_std.exp() * noise)
        logp = (-0.5 * noise**2 - log_std - 0.919 - torch.log(1 - action**2 + 1e-6)).sum(-1)
        return action, logp


def explore(memory, count, seed):
    rng, env = np.random.default_rng(seed), Reacher(seed)
    obs, rows = env.reset(), []
    for _ in range(count):
        action = rng.uniform(-1, 1, ACT)
        next_obs, reward, done = env.step(action)
        rows.append((obs, action, reward, next_obs))
        obs = env.reset() if done else next_obs
    memory.add(*(np.array(part, np.float32) for part in zip(*rows)))


def update(batch, actor, critics, targets, optimizer, args):
    obs, action, reward, next_obs = batch
    with torch.no_grad():
        next_action, next_logp = actor(next_obs)
        value = torch.min(*targets(next_obs, next_action)) - args.alpha * next_logp
        goal = reward + args.gamma * value
    q1, q2 = critics(obs, action)
    critic_loss = F.mse_loss(q1, goal) + F.mse_loss(q2, goal)
    new_action, logp = actor(obs)
    critics.requires_grad_(False)
    actor_loss = (args.alpha * logp - torch.min(*critics(obs, new_action))).mean()
    critics.requires_grad_(True)
    optimizer.zero_grad(set_to_none=True)
    (critic_loss + actor_loss).backward()
    optimizer.step()
    with torch.no_grad():
        torch._foreach_lerp_(list(targets.parameters()), list(critics.parameters()), args.tau)
    return critic_loss.detach()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--capacity", type=int, default=100_000)
    parser.add_argument("--warmup", type=int, default=100_000)
    parser.add_argument("--batch-size", type=int, default=96)
    parser.add_argument("--alpha", type=float, default=0.1)
    parser.add_argument("--gamma", type=float, default=0.98)
    parser.add_argument("--tau", type=float, default=0.005)
    parser.add_argument("--max-steps", type=int, default=2_000_000)
    args = parser.parse_args()
    torch.manual_seed(6)
    torch.set_num_threads(1)
    rng, env, memory = np.random.default_rng(6), Reacher(6), ReplayMemory(args.capacity)
    explore(memory, args.warmup, 7)
    actor, critics = Actor(), Critics()
    targets = copy.deepcopy(critics).requires_grad_(False)
    optimizer = torch.optim.Adam([*actor.parameters(), *critics.parameters()], lr=3e-4, fused=True)
    obs, total, began = env.reset(), 0.0, time.time()
    for step in range(1, args.max_steps + 1):
        with torch.no_grad():
            action = actor(torch.from_numpy(obs)[None])[0][0].numpy()
        next_obs, reward, done = env.step(action)
        memory.add(obs, action, reward, next_obs)
        total += reward
        obs = env.reset() if done else next_obs
        loss = update(memory.sample(args.batch_size, rng), actor, critics, targets, optimizer, args)
        if step % 200 == 0:
            print(f"step {step} critic {loss.item():.4f} reward {total / 200:.3f} {time.time() - began:.0f}s", flush=True)
            total = 0.0


if __name__ == "__main__":
    main()
