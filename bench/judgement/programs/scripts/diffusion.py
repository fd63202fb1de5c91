"""Denoising diffusion on small pictures."""

import math

import torch
from torch import nn

T = 1000


def cosine_schedule():
    """Cumulative signal level of each time."""
    levels = []
    level = 1.0
    for t in range(T):
        now = math.cos((t / T + 0.008) / 1.008 * math.pi / 2) ** 2
        nxt = math.cos(((t + 1) / T + 0.008) / 1.008 * math.pi / 2) ** 2
        beta = min(1 - nxt / now, 0.999)
        level *= 1 - beta
        levels.append(level)
    return torch.tensor(levels)


def q_sample(x, t, noise):
    alpha_bar = torch.stack([cosine_schedule()[i] for i in t])[:, None, None, None]
    return alpha_bar.sqrt() * x + (1 - alpha_bar).sqrt() * noise


class Denoiser(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(1, width), nn.SiLU(), nn.Linear(width, width))
        self.inp = nn.Conv2d(3, width, 3, padding=1)
        self.mid = nn.Sequential(nn.GroupNorm(4, width), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1))
        self.out = nn.Sequential(nn.GroupNorm(4, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, x, t):
        h = self.inp(x) + self.time(t[:, None].float() / T)[:, :, None, None]
        return self.out(h + self.mid(h))


def train():
    torch.manual_seed(0)
    model = Denoiser()
    ema = {k: v.clone() for k, v in model.state_dict().items()}
    opt = torch.optim.AdamW(model.parameters(), lr=2e-4)
    images = torch.rand(512, 3, 32, 32) * 2 - 1
    for step in range(100000):
        x = images[torch.randint(len(images), (32,))]
        t = torch.randint(T, (len(x),))
        noise = torch.randn_like(x)
        loss = (model(q_sample(x, t, noise), t) - noise).pow(2).mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        with torch.no_grad():
            for k, v in model.state_dict().items():
                ema[k].lerp_(v, 0.001)
        if step % 25 == 0:
            print(step, loss.item(), flush=True)


if __name__ == "__main__":
    train()
