"""Denoising of surface scans on two ranks.

    python -m torch.distributed.run --nproc-per-node 2 ddp_surface.py
"""
import argparse
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel


def scans(count, size, seed):
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.randn(count, 1, 8, 8, generator=generator)
    return F.interpolate(coarse, size=size, mode="bicubic", align_corners=True)


def layer(inp, out, stride=1):
    return nn.Sequential(nn.Conv2d(inp, out, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True))


class Denoiser(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.inp = layer(1, width)
        self.down = layer(width, 2 * width, stride=2)
        self.middle = nn.Sequential(layer(2 * width, 2 * width), layer(2 * width, 2 * width))
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.merge = layer(2 * width, width)
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        h = self.inp(x)
        u = self.up(self.middle(self.down(h)))
        return x + self.out(self.merge(torch.cat([h, u], 1)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=48)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--noise", type=float, default=0.3)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--max-steps", type=int, default=500_000)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(50 + rank)
    clean = scans(1200, args.size, 50 + rank)
    model = DistributedDataParallel(Denoiser().to(memory_format=torch.channels_last), broadcast_buffers=False, gradient_as_bucket_view=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, fused=True)
    began = time.time()
    for step in range(1, args.max_steps + 1):
        target = clean[torch.randint(0, len(clean), (args.batch_size,))]
        loss = F.mse_loss(model(target + args.noise * torch.randn_like(target)), target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 50 == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.5f} {time.time() - began:.0f}s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
