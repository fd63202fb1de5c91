"""Tiny denoising diffusion model on 16x16 patterns."""
import gc

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(11)

T = 200
SIZE = 16
BATCH = 48
ITERS = 320


def patterns(n):
    g = torch.linspace(-1, 1, SIZE)
    yy, xx = torch.meshgrid(g, g, indexing="ij")
    a = torch.rand(n, 1, 1) * 6.28
    k = 3 + 5 * torch.rand(n, 1, 1)
    return torch.sin(k * (xx * a.cos() + yy * a.sin()))[:, None]


class Block(nn.Module):
    def __init__(self, cin, cout, tdim):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, padding=1)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1)
        self.time = nn.Linear(tdim, cout)
        self.norm = nn.GroupNorm(8, cout)

    def forward(self, x, t):
        h = F.silu(self.conv1(x)) + self.time(t)[:, :, None, None]
        return F.silu(self.norm(self.conv2(h)))


class UNet(nn.Module):
    def __init__(self, ch=32, tdim=64):
        super().__init__()
        self.temb = nn.Embedding(T, tdim)
        self.d1 = Block(1, ch, tdim)
        self.d2 = Block(ch, 2 * ch, tdim)
        self.mid = Block(2 * ch, 2 * ch, tdim)
        self.u1 = Block(3 * ch, ch, tdim)
        self.out = nn.Conv2d(ch, 1, 1)

    def forward(self, x, t):
        t = self.temb(t)
        a = self.d1(x, t)
        b = self.d2(F.avg_pool2d(a, 2), t)
        b = self.mid(b, t)
        up = F.interpolate(b, scale_factor=2)
        return self.out(self.u1(torch.cat([up, a], 1), t))


def main():
    data = patterns(4000)
    betas = torch.linspace(1e-4, 0.03, T)
    abar = torch.cumprod(1 - betas, 0)
    root, rest = abar.sqrt(), (1 - abar).sqrt()

    model = UNet()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, fused=True)
    for it in range(ITERS):
        x0 = data[torch.randint(0, len(data), (BATCH,))]
        t = torch.randint(0, T, (BATCH,))
        noise = torch.randn_like(x0)
        xt = root[t].view(-1, 1, 1, 1) * x0 + rest[t].view(-1, 1, 1, 1) * noise

        pred = model(xt, t)
        loss = F.mse_loss(pred, noise)
        opt.zero_grad()
        loss.backward()
        opt.step()

        if it % 100 == 0:
            print(f"it {it} loss {loss.item():.4f}")
        # keep memory low
        del pred, noise, xt, x0


if __name__ == "__main__":
    main()
