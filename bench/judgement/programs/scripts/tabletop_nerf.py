"""A small radiance field of spheres on a table, trained from rays of all pictures."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def camera_rays(size, angle):
    axis = np.linspace(-0.5, 0.5, size)
    x, y = np.meshgrid(axis, axis)
    local = np.stack([x, -y, np.full_like(x, -1.0)], -1)
    c, s = np.cos(angle), np.sin(angle)
    turn = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
    direction = local @ turn.T
    direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
    origin = np.broadcast_to(np.array([0, 0, 3.0]) @ turn.T, direction.shape)
    return origin, direction


def shade(origin, direction):
    colour = np.broadcast_to(np.array([0.9, 0.9, 0.95]), origin.shape).copy()
    nearest = np.full(origin.shape[:-1], np.inf)
    spheres = [((0, 0, 0), 0.5, (0.8, 0.2, 0.2)), ((0.8, 0.1, 0.3), 0.35, (0.2, 0.6, 0.3)), ((-0.7, -0.2, 0.4), 0.3, (0.2, 0.3, 0.8))]
    for centre, radius, tint in spheres:
        to = origin - np.array(centre)
        b = (to * direction).sum(-1)
        disc = b**2 - ((to**2).sum(-1) - radius**2)
        t = np.where(disc > 0, -b - np.sqrt(np.maximum(disc, 0)), np.inf)
        hit = (t > 0) & (t < nearest)
        nearest = np.where(hit, t, nearest)
        colour[hit] = tint
    return colour


def pictures(count, size):
    parts = []
    for angle in np.linspace(0, 2 * np.pi, count, endpoint=False):
        origin, direction = camera_rays(size, angle)
        rays = np.concatenate([origin, direction, shade(origin, direction)], -1)
        parts.append(rays.reshape(-1, 9).astype(np.float32))
    return np.concatenate(parts)


class Field(nn.Module):
    def __init__(self, octaves=6, width=96):
        super().__init__()
        self.register_buffer("scale", 2.0 ** torch.arange(octaves))
        self.net = nn.Sequential(
            nn.Linear(3 + 6 * octaves, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4),
        )

    def forward(self, points):
        turned = (points[..., None] * self.scale).flatten(-2)
        out = self.net(torch.cat([points, turned.sin(), turned.cos()], -1))
        return out[..., :3].sigmoid(), F.softplus(out[..., 3])


def render(field, rays, samples, near=1.5, far=4.5):
    width = (far - near) / samples
    depth = near + width * (torch.arange(samples) + torch.rand(len(rays), samples))
    points = rays[:, None, :3] + rays[:, None, 3:6] * depth[..., None]
    colour, density = field(points)
    optical = density * width
    through = torch.exp(-torch.cumsum(optical, 1) + optical)
    weight = through * (1 - torch.exp(-optical))
    return (weight[..., None] * colour).sum(1) + (1 - weight.sum(1, keepdim=True)) * 0.92


class RaySampler:
    def __init__(self, rays, batch_size):
        self.rays, self.batch_size = rays, batch_size

    def next_batch(self):
        picked = np.random.choice(len(self.rays), self.batch_size, replace=False)
        return torch.from_numpy(self.rays[picked])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pictures", type=int, default=24)
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("--rays", type=int, default=384)
    parser.add_argument("--samples", type=int, default=24)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--max-steps", type=int, default=500_000)
    args = parser.parse_args()
    np.random.seed(9)
    torch.manual_seed(9)
    torch.set_num_threads(1)
    sampler = RaySampler(pictures(args.pictures, args.size), args.rays)
    field = Field()
    optimizer = torch.optim.Adam(field.parameters(), lr=args.lr, fused=True)
    began = time.time()
    for step in range(1, args.max_steps + 1):
        rays = sampler.next_batch()
        loss = F.mse_loss(render(field, rays, args.samples), rays[:, 6:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} psnr {-10 * np.log10(loss.item()):.2f} {time.time() - began:.0f}s", flush=True)


if __name__ == "__main__":
    main()
