"""Sorts seeds by variety from small photographs, with a network in the manner of ConvNeXt."""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def photographs(count, classes, size, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, classes, (count,), generator=generator)
    axis = torch.linspace(-1, 1, size)
    long = 0.4 + 0.4 * labels[:, None, None] / classes
    angle = torch.rand(count, 1, 1, generator=generator) * 3.1416
    u = axis[None, :, None] * angle.cos() + axis[None, None] * angle.sin()
    v = axis[None, None] * angle.cos() - axis[None, :, None] * angle.sin()
    body = ((u / long) ** 2 + (v / 0.35) ** 2 < 1).float()
    colour = torch.rand(count, 3, 1, 1, generator=generator) * 0.5 + 0.3
    images = body[:, None] * colour + 0.1 * torch.randn(count, 3, size, size, generator=generator)
    return images, labels


class ChannelNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim, eps=1e-6)

    def forward(self, x):
        x = x.permute(0, 2, 3, 1).contiguous()
        return self.norm(x).permute(0, 3, 1, 2).contiguous()


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.spatial = nn.Conv2d(dim, dim, 7, padding=3, groups=dim)
        self.norm = ChannelNorm(dim)
        self.expand = nn.Conv2d(dim, 2 * dim, 1)
        self.reduce = nn.Conv2d(2 * dim, dim, 1)
        self.scale = nn.Parameter(1e-2 * torch.ones(1, dim, 1, 1))

    def forward(self, x):
        h = self.norm(self.spatial(x))
        return x + self.scale * self.reduce(F.gelu(self.expand(h)))


class SeedNet(nn.Module):
    def __init__(self, classes, dims=(32, 64), depths=(2, 3)):
        super().__init__()
        layers = [nn.Conv2d(3, dims[0], 2, stride=2), ChannelNorm(dims[0])]
        for i, (dim, depth) in enumerate(zip(dims, depths)):
            if i:
                layers += [ChannelNorm(dims[i - 1]), nn.Conv2d(dims[i - 1], dim, 2, stride=2)]
            layers += [Block(dim) for _ in range(depth)]
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.LayerNorm(dims[-1]), nn.Linear(dims[-1], classes))

    def forward(self, x):
        return self.head(self.features(x).mean(dim=(2, 3)))


def train(model, images, labels, args):
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.05, fused=True)
    began = time.time()
    for step in range(1, args.max_steps + 1):
        chosen = torch.randint(0, len(images), (args.batch_size,))
        x, y = images[chosen], labels[chosen]
        if step % 2:
            x = x.flip(3)
        loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f} {time.time() - began:.0f}s", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--classes", type=int, default=7)
    parser.add_argument("--size", type=int, default=48)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--max-steps", type=int, default=500_000)
    args = parser.parse_args()
    torch.manual_seed(2)
    torch.set_num_threads(1)
    images, labels = photographs(1500, args.classes, args.size, 2)
    train(SeedNet(args.classes), images, labels, args)


if __name__ == "__main__":
    main()
