"""Speed on the roads of a city by message passing between junctions."""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def city(junctions, degree, features, seed):
    generator = torch.Generator().manual_seed(seed)
    place = torch.rand(junctions, 2, generator=generator)
    near = torch.cdist(place, place).topk(degree + 1, largest=False).indices[:, 1:]
    target = torch.arange(junctions).repeat_interleave(degree)
    source = near.reshape(-1)
    length = (place[source] - place[target]).norm(dim=1, keepdim=True)
    hidden = torch.randn(junctions, features, generator=generator)
    smooth = torch.zeros_like(hidden).index_add_(0, target, hidden[source]) / degree
    return source, target, length, hidden, smooth


class RoadConv(nn.Module):
    def __init__(self, inp, out):
        super().__init__()
        self.message = nn.Linear(inp, out)
        self.own = nn.Linear(inp, out)
        self.distance = nn.Parameter(torch.ones(1))

    def forward(self, x, source, target, length):
        messages = self.message(x[source]) * torch.exp(-self.distance * length)
        total = torch.zeros(len(x), messages.shape[1]).index_add(0, target, messages)
        return self.own(x) + total


class SpeedNet(nn.Module):
    def __init__(self, features, width, layers=3):
        super().__init__()
        sizes = [features] + [width] * layers
        self.convs = nn.ModuleList(RoadConv(a, b) for a, b in zip(sizes, sizes[1:]))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.out = nn.Linear(width, 1)

    def forward(self, x, source, target, length):
        for conv, norm in zip(self.convs, self.norms):
            x = F.relu(norm(conv(x, source, target, length)))
        return self.out(x).squeeze(-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--junctions", type=int, default=900)
    parser.add_argument("--degree", type=int, default=12)
    parser.add_argument("--features", type=int, default=24)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--max-steps", type=int, default=500_000)
    args = parser.parse_args()
    torch.manual_seed(23)
    torch.set_num_threads(1)
    source, target, length, hidden, smooth = city(args.junctions, args.degree, args.features, 23)
    weight = torch.randn(args.features) / args.features**0.5
    model = SpeedNet(args.features, args.width)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, fused=True)
    began = time.time()
    for step in range(1, args.max_steps + 1):
        hour = torch.randn(1)
        observed = hidden + 0.1 * torch.randn_like(hidden) + hour
        speed = torch.sigmoid((smooth + hour) @ weight)
        loss = F.smooth_l1_loss(model(observed, source, target, length), speed)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.5f} {time.time() - began:.0f}s", flush=True)


if __name__ == "__main__":
    main()
