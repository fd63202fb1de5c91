"""DDPM on 28x28 synthetic glyphs with a small residual U-Net."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


def glyphs(count, seed):
    """Random strokes drawn as Gaussian blobs along a line."""
    generator = torch.Generator().manual_seed(seed)
    grid = torch.stack(torch.meshgrid(torch.linspace(-1, 1, 28), torch.linspace(-1, 1, 28), indexing="ij"))
    canvas = torch.zeros(count, 28, 28)
    for _ in range(3):
        start = torch.rand(count, 2, generator=generator) * 1.2 - 0.6
        move = torch.randn(count, 2, generator=generator) * 0.15
        for k in range(4):
            centre = (start + k * move)[:, :, None, None]
            canvas += torch.exp(-((grid[None] - centre) ** 2).sum(1) / 0.02)
    return canvas.clamp(0, 1)[:, None] * 2 - 1


def time_embedding(t, dim):
    freqs = torch.exp(-math.log(10000.0) * torch.arange(dim // 2) / (dim // 2))
    angles = t[:, None].float() * freqs[None]
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class ResBlock(nn.Module):
    def __init__(self, inp, out, emb, use_checkpoint):
        super().__init__()
        self.use_checkpoint = use_checkpoint
        self.norm1, self.conv1 = nn.GroupNorm(8, inp), nn.Conv2d(inp, out, 3, padding=1)
        self.emb = nn.Linear(emb, out)
        self.norm2, self.conv2 = nn.GroupNorm(8, out), nn.Conv2d(out, out, 3, padding=1)
        self.skip = nn.Conv2d(inp, out, 1) if inp != out else nn.Identity()

    def _forward(self, x, emb):
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.emb(emb)[:, :, None, None]
        h = self.conv2(F.silu(self.norm2(h)))
        return h + self.skip(x)

    def forward(self, x, emb):
        if self.use_checkpoint and self.training:
            return checkpoint(self._forward, x, emb, use_reentrant=True)
        return self._forward(x, emb)


class UNet(nn.Module):
    def __init__(self, width=24, emb=96, use_checkpoint=False):
        super().__init__()
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, emb), nn.SiLU(), nn.Linear(emb, emb), nn.SiLU())
        self.inp = nn.Conv2d(1, width, 3, padding=1)
        self.down1 = ResBlock(width, width, emb, use_checkpoint)
        self.pool1 = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.down2 = ResBlock(2 * width, 2 * width, emb, use_checkpoint)
        self.pool2 = nn.Conv2d(2 * width, 2 * width, 3, stride=2, padding=1)
        self.mid = ResBlock(2 * width, 2 * width, emb, use_checkpoint)
        self.up2 = ResBlock(4 * width, 2 * width, emb, use_checkpoint)
        self.up1 = ResBlock(3 * width, width, emb, use_checkpoint)
        self.out = nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, 1, 3, padding=1))

    def forward(self, x, t):
        emb = self.time(time_embedding(t, self.width))
        h1 = self.down1(self.inp(x), emb)
        h2 = self.down2(self.pool1(h1), emb)
        h = self.mid(self.pool2(h2), emb)
        h = self.up2(torch.cat([F.interpolate(h, scale_factor=2.0), h2], dim=1), emb)
        h = self.up1(torch.cat([F.interpolate(h, scale_factor=2.0), h1], dim=1), emb)
        return self.out(h)


def train(model, images, args):
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    ema = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.999))
    keep = torch.cumprod(1.0 - torch.linspace(1e-4, 0.02, args.timesteps), dim=0)
    step = 0
    while step < args.steps:
        for batch in torch.randperm(len(images)).split(args.batch_size):
            clean = images[batch]
            t = torch.randint(0, args.timesteps, (len(clean),))
            noise = torch.randn_like(clean)
            level = keep[t][:, None, None, None]
            noisy = level.sqrt() * clean + (1 - level).sqrt() * noise
            loss = F.mse_loss(model(noisy, t), noise)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            ema.update_parameters(model)
            step += 1
            if step % 20 == 0:
                print(f"step {step} mse {loss.item():.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=500_000)
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--timesteps", type=int, default=1000)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--images", type=int, default=3000)
    parser.add_argument("--use-checkpoint", action=argparse.BooleanOptionalAction, default=True)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    train(UNet(use_checkpoint=args.use_checkpoint), glyphs(args.images, 0), args)


if __name__ == "__main__":
    main()
