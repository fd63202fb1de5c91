"""PPO on a batch of toy control problems."""

import torch
import torch.nn as nn
from torch.distributions import Categorical

N_ENVS, HORIZON = 16, 64


class Envs:
    """A cart that should stay near the middle, many at once."""

    def __init__(self, n):
        self.n = n
        self.state = torch.zeros(n, 4)

    def reset(self):
        self.state = torch.randn(self.n, 4) * 0.1
        return self.state

    def step(self, action):
        force = action.float() * 2 - 1
        x, v, a, w = self.state.unbind(1)
        v = v + 0.05 * force
        w = w + 0.05 * (a - force)
        self.state = torch.stack([x + 0.05 * v, v, a + 0.05 * w, w], 1)
        done = self.state[:, 0].abs() > 2.4
        reward = 1.0 - self.state[:, 2].abs()
        self.state = torch.where(done[:, None], torch.randn(self.n, 4) * 0.1, self.state)
        return self.state, reward, done


class ActorCritic(nn.Module):
    def __init__(self, hidden=256):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.pi = nn.Linear(hidden, 2)
        self.v = nn.Linear(hidden, 1)

    def forward(self, obs):
        h = self.body(obs)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


def compute_gae(rewards, values, dones, last_value, gamma=0.99, lam=0.95):
    adv = torch.zeros_like(rewards)
    for e in range(N_ENVS):
        running = 0.0
        for t in reversed(range(HORIZON)):
            next_value = last_value[e].item() if t == HORIZON - 1 else values[t + 1, e].item()
            mask = 1.0 - float(dones[t, e].item())
            delta = rewards[t, e].item() + gamma * next_value * mask - values[t, e].item()
            running = delta + gamma * lam * mask * running
            adv[t, e] = running
    return adv


def rollout(envs, obs, policy):
    data = {k: [] for k in ("obs", "act", "logp", "val", "rew", "done")}
    with torch.no_grad():
        for _ in range(HORIZON):
            dist, value = policy(obs)
            action = dist.sample()
            data["obs"].append(obs)
            data["act"].append(action)
            data["logp"].append(dist.log_prob(action))
            data["val"].append(value)
            obs, reward, done = envs.step(action)
            data["rew"].append(reward)
            data["done"].append(done)
        _, last = policy(obs)
    return obs, {k: torch.stack(v) for k, v in data.items()}, last


def update(policy, optimizer, batch, adv, returns):
    obs, act, logp_old = (batch[k].flatten(0, 1) for k in ("obs", "act", "logp"))
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    dist, value = policy(obs)
    ratio = (dist.log_prob(act) - logp_old).exp()
    loss = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
    loss = loss + 0.5 * (returns - value).pow(2).mean() - 0.01 * dist.entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
    optimizer.step()
    return loss


if __name__ == "__main__":
    torch.manual_seed(1)
    envs = Envs(N_ENVS)
    obs = envs.reset()
    policy = ActorCritic()
    optimizer = torch.optim.Adam(policy.parameters(), 3e-4)
    for it in range(100000):
        obs, batch, last = rollout(envs, obs, policy)
        adv = compute_gae(batch["rew"], batch["val"], batch["done"], last)
        returns = adv + batch["val"]
        loss = update(policy, optimizer, batch, adv.flatten(), returns.flatten())
        if it % 20 == 0:
            print(it, float(batch["rew"].mean()), flush=True)
