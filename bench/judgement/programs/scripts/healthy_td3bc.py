"""Offline reinforcement learning: TD3+BC on a fixed buffer of transitions."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

OBS, ACT, BATCH = 24, 6, 512


def mlp(i, o, h=256):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(OBS, ACT)

    def forward(self, obs):
        return self.net(obs).tanh()


class TwinCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.q1, self.q2 = mlp(OBS + ACT, 1), mlp(OBS + ACT, 1)

    def forward(self, obs, act):
        x = torch.cat([obs, act], 1)
        return self.q1(x), self.q2(x)


class Buffer:
    """Everything is one tensor per field."""

    def __init__(self, n=60_000):
        self.obs = torch.randn(n, OBS)
        self.act = torch.rand(n, ACT) * 2 - 1
        self.nxt = self.obs + 0.1 * torch.randn(n, OBS)
        self.rew = -(self.act - self.obs[:, :ACT].tanh()).square().mean(1, keepdim=True)
        self.mask = (torch.rand(n, 1) > 0.01).float()

    def sample(self):
        i = torch.randint(0, len(self.obs), (BATCH,))
        return self.obs[i], self.act[i], self.nxt[i], self.rew[i], self.mask[i]


@torch.no_grad()
def soft_update(target, source, tau=0.005):
    torch._foreach_lerp_(list(target.parameters()), list(source.parameters()), tau)


def main():
    torch.manual_seed(0)
    buffer = Buffer()
    actor, critic = Actor(), TwinCritic()
    actor_t, critic_t = copy.deepcopy(actor).requires_grad_(False), copy.deepcopy(critic).requires_grad_(False)
    opt_a = torch.optim.Adam(actor.parameters(), lr=3e-4, fused=True)
    opt_c = torch.optim.Adam(critic.parameters(), lr=3e-4, fused=True)
    for it in range(100_000_000):
        obs, act, nxt, rew, mask = buffer.sample()
        with torch.no_grad():
            noise = (torch.randn_like(act) * 0.2).clamp_(-0.5, 0.5)
            a2 = (actor_t(nxt) + noise).clamp_(-1, 1)
            target = rew + 0.99 * mask * torch.minimum(*critic_t(nxt, a2))
        q1, q2 = critic(obs, act)
        loss_c = F.mse_loss(q1, target) + F.mse_loss(q2, target)
        opt_c.zero_grad()
        loss_c.backward()
        opt_c.step()
        if it % 2 == 0:
            pi = actor(obs)
            critic.requires_grad_(False)
            q = critic.q1(torch.cat([obs, pi], 1))
            critic.requires_grad_(True)
            loss_a = -2.5 * q.mean() / q.detach().abs().mean() + F.mse_loss(pi, act)
            opt_a.zero_grad()
            loss_a.backward()
            opt_a.step()
            soft_update(critic_t, critic)
            soft_update(actor_t, actor)
        if it % 500 == 0:
            print(f"{it}: critic {loss_c.item():.4f} actor {loss_a.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
