"""REINFORCE with a value baseline on a batch of simulated pendulums."""

import math
import time

import numpy as np
import torch
from torch import nn
from torch.distributions import Normal

NUM_ENVS = 16
HORIZON = 300
GAMMA = 0.98
ITERATIONS = 5000
ENTROPY_BONUS = 1e-3


class PendulumBatch:
    """The classic swing-up task, many copies stepped at once."""

    max_speed = 8.0
    max_torque = 2.0
    dt = 0.05

    def __init__(self, count, seed):
        self.count = count
        self.rng = np.random.default_rng(seed)

    def reset(self):
        """Random angle and speed."""
        self.theta = self.rng.uniform(-math.pi, math.pi, self.count)
        self.speed = self.rng.uniform(-1, 1, self.count)
        return self.observe()

    def observe(self):
        """Cosine, sine and speed."""
        return np.stack([np.cos(self.theta), np.sin(self.theta), self.speed / self.max_speed], axis=1)

    def step(self, action):
        """Apply a torque; return the observation and the reward of every copy."""
        torque = np.clip(action, -1, 1) * self.max_torque
        angle = (self.theta + math.pi) % (2 * math.pi) - math.pi
        cost = angle**2 + 0.1 * self.speed**2 + 0.001 * torque**2
        self.speed = self.speed + (15.0 * np.sin(self.theta) + 3.0 * torque) * self.dt
        self.speed = np.clip(self.speed, -self.max_speed, self.max_speed)
        self.theta = self.theta + self.speed * self.dt
        return self.observe(), -cost / 16.0


class Policy(nn.Module):
    """Gaussian policy and value function."""

    def __init__(self, obs_dim, act_dim, hidden):
        super().__init__()
        self.pi = nn.Sequential(
            nn.Linear(obs_dim, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, act_dim)
        )
        self.v = nn.Sequential(
            nn.Linear(obs_dim, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1)
        )
        self.log_std = nn.Parameter(torch.full((act_dim,), -0.3))

    def distribution(self, obs):
        """The distribution over actions."""
        return Normal(self.pi(obs), self.log_std.exp(), validate_args=False)

    @torch.no_grad()
    def act(self, obs):
        """Sample actions."""
        mean = self.pi(obs)
        return mean + self.log_std.exp() * torch.randn_like(mean)


def collect(env, policy):
    """Play one episode in every environment; arrays are (time, env, ...)."""
    observations = np.empty((HORIZON, NUM_ENVS, 3), dtype=np.float32)
    actions = np.empty((HORIZON, NUM_ENVS, 1), dtype=np.float32)
    rewards = np.empty((HORIZON, NUM_ENVS), dtype=np.float32)
    obs = env.reset()
    for t in range(HORIZON):
        observations[t] = obs
        action = policy.act(torch.from_numpy(observations[t])).numpy()
        actions[t] = action
        obs, rewards[t] = env.step(action[:, 0])
    return torch.from_numpy(observations), torch.from_numpy(actions), rewards


def discounted_returns(rewards):
    """Reward to go of every step of every environment."""
    returns = []
    for episode in rewards.T.tolist():
        length = len(episode)
        returns.append([sum(GAMMA ** (k - t) * episode[k] for k in range(t, length)) for t in range(length)])
    return torch.tensor(returns).T


def update(policy, optimizer, observations, actions, returns):
    """One policy gradient step with a fitted baseline."""
    values = policy.v(observations).squeeze(-1)
    advantage = returns - values.detach()
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    dist = policy.distribution(observations)
    log_prob = dist.log_prob(actions).sum(-1)
    policy_loss = -(log_prob * advantage).mean() - ENTROPY_BONUS * dist.entropy().sum(-1).mean()
    value_loss = (values - returns).square().mean()
    optimizer.zero_grad()
    (policy_loss + 0.5 * value_loss).backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    return policy_loss.item(), value_loss.item()


def main():
    """Train."""
    torch.manual_seed(0)
    env = PendulumBatch(NUM_ENVS, seed=0)
    policy = Policy(obs_dim=3, act_dim=1, hidden=96)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    begun = time.time()
    for iteration in range(1, ITERATIONS + 1):
        observations, actions, rewards = collect(env, policy)
        returns = discounted_returns(rewards)
        policy_loss, value_loss = update(policy, optimizer, observations, actions, returns)
        if iteration % 25 == 0:
            print(
                f"iteration {iteration} return {rewards.sum(0).mean():.2f} policy {policy_loss:.3f} "
                f"value {value_loss:.3f} ({(time.time() - begun) / iteration:.3f} s/it)",
                flush=True,
            )


if __name__ == "__main__":
    main()
