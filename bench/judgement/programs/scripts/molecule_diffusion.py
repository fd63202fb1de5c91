"""Denoising diffusion on point clouds (toy molecules): an attention denoiser over atoms."""
import math

import torch
import torch.nn as nn
from torch import Tensor

torch.autograd.set_detect_anomaly(True)

ATOMS, TYPES, T = 18, 5, 500


class TimeEmbedding(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.register_buffer("freq", torch.exp(-math.log(10_000) * torch.arange(dim // 2) / (dim // 2)))
        self.mlp = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, t: Tensor) -> Tensor:
        a = t[:, None] * self.freq
        return self.mlp(torch.cat([a.sin(), a.cos()], -1))


class AtomLayer(nn.Module):
    """Attention with a bias from pair distances, then a gated feed-forward."""

    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.bias = nn.Linear(1, heads)
        self.film = nn.Linear(dim, 2 * dim)
        self.up, self.gate, self.down = nn.Linear(dim, 2 * dim), nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, h: Tensor, dist: Tensor, temb: Tensor) -> Tensor:
        b, n, d = h.shape
        scale, shift = self.film(temb).unsqueeze(1).chunk(2, -1)
        x = self.norm1(h) * (1 + scale) + shift
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        bias = self.bias(dist.unsqueeze(-1)).permute(0, 3, 1, 2)
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        h = h + self.out(y.transpose(1, 2).reshape(b, n, d))
        x = self.norm2(h)
        return h + self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class Denoiser(nn.Module):
    def __init__(self, dim: int = 64, depth: int = 6, heads: int = 4):
        super().__init__()
        self.atom = nn.Embedding(TYPES, dim)
        self.pos = nn.Linear(3, dim)
        self.time = TimeEmbedding(dim)
        self.layers = nn.ModuleList(AtomLayer(dim, heads) for _ in range(depth))
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 3))

    def forward(self, x: Tensor, kind: Tensor, t: Tensor) -> Tensor:
        temb = self.time(t.float())
        dist = (x.unsqueeze(1) - x.unsqueeze(2)).square().sum(-1).add(1e-6).sqrt()
        h = self.atom(kind) + self.pos(x)
        for layer in self.layers:
            h = layer(h, dist, temb)
        eps = self.head(h)
        return eps - eps.mean(1, keepdim=True)


class Schedule:
    def __init__(self) -> None:
        s = torch.linspace(0, 1, T + 1)
        f = torch.cos((s + 0.008) / 1.008 * math.pi / 2) ** 2
        self.alpha_bar = (f / f[0]).clamp(1e-5, 0.99999)

    def noise(self, x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        eps = torch.randn_like(x)
        eps = eps - eps.mean(1, keepdim=True)
        a = self.alpha_bar[t].view(-1, 1, 1)
        return a.sqrt() * x + (1 - a).sqrt() * eps, eps


def main() -> None:
    torch.manual_seed(0)
    coords = torch.randn(3000, ATOMS, 3)
    coords -= coords.mean(1, keepdim=True)
    kinds = torch.randint(0, TYPES, (3000, ATOMS))
    model, schedule = Denoiser(), Schedule()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-4, betas=(0.9, 0.99))
    for step in range(20_000_000):
        pick = torch.randint(0, len(coords), (24,))
        t = torch.randint(0, T, (24,))
        noisy, eps = schedule.noise(coords[pick], t)
        loss = (model(noisy, kinds[pick], t) - eps).square().mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step % 100 == 0:
            print(f"{step:8d} {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
