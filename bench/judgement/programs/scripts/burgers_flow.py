"""Burgers' equation solved by a network that is trained on the residual."""
import argparse
import math
import time

import torch
import torch.nn as nn


class Solution(nn.Module):
    def __init__(self, width=80, layers=4):
        super().__init__()
        sizes = [2] + [width] * layers
        parts = []
        for inp, out in zip(sizes, sizes[1:]):
            parts += [nn.Linear(inp, out), nn.Tanh()]
        self.net = nn.Sequential(*parts, nn.Linear(width, 1))

    def forward(self, x, t):
        return self.net(torch.cat([x, t], 1))


def f(model, x, t):
    return model(x, t)


def df(output, inp, order=1):
    value = output
    for _ in range(order):
        value = torch.autograd.grad(value, inp, torch.ones_like(inp), create_graph=True, retain_graph=True)[0]
    return value


def dfdt(model, x, t, order=1):
    return df(f(model, x, t), t, order)


def dfdx(model, x, t, order=1):
    return df(f(model, x, t), x, order)


def interior_loss(model, x, t, viscosity):
    residual = dfdt(model, x, t) + f(model, x, t) * dfdx(model, x, t) - viscosity * dfdx(model, x, t, order=2)
    return residual.pow(2).mean()


def initial_loss(model, x):
    return (f(model, x, torch.zeros_like(x)) + torch.sin(math.pi * x)).pow(2).mean()


def boundary_loss(model, t):
    edge = torch.ones_like(t)
    return f(model, edge, t).pow(2).mean() + f(model, -edge, t).pow(2).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=1200)
    parser.add_argument("--edge-points", type=int, default=100)
    parser.add_argument("--viscosity", type=float, default=0.01 / math.pi)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--max-steps", type=int, default=500_000)
    args = parser.parse_args()
    torch.manual_seed(14)
    torch.set_num_threads(1)
    model = Solution()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, fused=True)
    began = time.time()
    for step in range(1, args.max_steps + 1):
        x = (2 * torch.rand(args.points, 1) - 1).requires_grad_()
        t = torch.rand(args.points, 1).requires_grad_()
        interior = interior_loss(model, x, t, args.viscosity)
        edges = initial_loss(model, 2 * torch.rand(args.edge_points, 1) - 1) + boundary_loss(model, torch.rand(args.edge_points, 1))
        loss = interior + edges
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} residual {interior.item():.5f} edges {edges.item():.5f} {time.time() - began:.0f}s", flush=True)


if __name__ == "__main__":
    main()
