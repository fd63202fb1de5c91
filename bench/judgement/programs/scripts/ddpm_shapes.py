"""Denoising diffusion (DDPM) on small images with a time conditioned U-Net."""

import math
import time

import torch
import torch.nn.functional as nnf
from torch import nn

SIZE = 24
BATCH = 24
STEPS = 8000
TIMESTEPS = 1000
EMA_DECAY = 0.999


def make_digits(count, seed=0):
    """Strokes: a few thick line segments per image, in [-1, 1]."""
    gen = torch.Generator().manual_seed(seed)
    ys, xs = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    grid = torch.stack([xs, ys], dim=-1).float()
    images = torch.zeros(count, SIZE, SIZE)
    for _ in range(3):
        a, b = torch.rand(2, count, 1, 1, 2, generator=gen) * (SIZE - 8) + 4
        along = b - a
        t = ((grid - a) * along).sum(-1) / along.square().sum(-1).clamp(min=1e-3)
        gap = (grid - a - t.clamp(0, 1).unsqueeze(-1) * along).norm(dim=-1)
        images = torch.maximum(images, (1.8 - gap).clamp(0, 1))
    return images.unsqueeze(1) * 2 - 1


class Schedule:
    """Cosine noise schedule (Nichol and Dhariwal)."""

    def __init__(self, timesteps, offset=0.008):
        t = torch.linspace(0, 1, timesteps + 1, dtype=torch.double)
        alpha_bar = torch.cos((t + offset) / (1 + offset) * math.pi / 2) ** 2
        beta = (1 - alpha_bar[1:] / alpha_bar[:-1]).clamp(max=0.999)
        alpha_bar = torch.cumprod(1 - beta, dim=0)
        self.signal = alpha_bar.sqrt().float().view(-1, 1, 1, 1)
        self.noise = (1 - alpha_bar).sqrt().float().view(-1, 1, 1, 1)

    def corrupt(self, x, t, noise):
        """The image after t steps of noise."""
        return self.signal[t] * x + self.noise[t] * noise


class TimeEmbedding(nn.Module):
    """Sinusoids and a small network."""

    def __init__(self, dim):
        super().__init__()
        self.register_buffer("freqs", torch.exp(-math.log(10_000) * torch.arange(dim // 2) / (dim // 2)))
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, 2 * dim))

    def forward(self, t):
        """Embed a batch of timesteps."""
        angle = t.float().unsqueeze(1) * self.freqs
        return self.mlp(torch.cat([angle.sin(), angle.cos()], dim=1))


class ResBlock(nn.Module):
    """Two convolutions with the time added between."""

    def __init__(self, inputs, outputs, time_dim):
        super().__init__()
        self.norm1 = nn.GroupNorm(8, inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time = nn.Linear(time_dim, outputs)
        self.norm2 = nn.GroupNorm(8, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x, emb):
        """Residual."""
        h = self.conv1(nnf.silu(self.norm1(x)))
        h = h + self.time(emb)[:, :, None, None]
        h = self.conv2(nnf.silu(self.norm2(h)))
        return h + self.skip(x)


class UNet(nn.Module):
    """Two resolutions, skip connections."""

    def __init__(self, width=32):
        super().__init__()
        time_dim = 2 * width
        self.time = TimeEmbedding(width)
        self.stem = nn.Conv2d(1, width, 3, padding=1)
        self.down1 = ResBlock(width, width, time_dim)
        self.pool = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.down2 = ResBlock(width, 2 * width, time_dim)
        self.middle = ResBlock(2 * width, 2 * width, time_dim)
        self.up2 = ResBlock(4 * width, width, time_dim)
        self.up1 = ResBlock(2 * width, width, time_dim)
        self.out = nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, 1, 3, padding=1))

    def forward(self, x, t):
        """Predict the noise."""
        emb = nnf.silu(self.time(t))
        high = self.down1(self.stem(x), emb)
        low = self.down2(self.pool(high), emb)
        x = self.middle(low, emb)
        x = self.up2(torch.cat([x, low], dim=1), emb)
        x = nnf.interpolate(x, scale_factor=2.0)
        return self.out(self.up1(torch.cat([x, high], dim=1), emb))


class EMA:
    """Moving average of the weights."""

    def __init__(self, model, decay):
        self.decay = decay
        self.params = [p.detach().clone() for p in model.parameters()]

    @torch.no_grad()
    def update(self, model):
        """Move toward the current weights."""
        torch._foreach_lerp_(self.params, list(model.parameters()), 1 - self.decay)


def main():
    """Train."""
    torch.manual_seed(0)
    images = make_digits(6000)
    schedule = Schedule(TIMESTEPS)
    model = UNet()
    ema = EMA(model, EMA_DECAY)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4, weight_decay=0.0)
    begun, running = time.time(), 0.0
    for step in range(1, STEPS + 1):
        x = images[torch.randint(0, len(images), (BATCH,))]
        t = torch.randint(0, TIMESTEPS, (BATCH,))
        noise = torch.randn_like(x)
        loss = nnf.mse_loss(model(schedule.corrupt(x, t, noise), t), noise)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        ema.update(model)
        running += loss.item()
        if step % 50 == 0:
            print(f"step {step} loss {running / 50:.4f} {1000 * (time.time() - begun) / step:.0f} ms", flush=True)
            running = 0.0


if __name__ == "__main__":
    main()
