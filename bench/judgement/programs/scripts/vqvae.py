"""VQ-VAE on small textured images."""

import time
from dataclasses import dataclass

import torch
import torch.nn.functional as nnf
from torch import nn


@dataclass
class Config:
    """Settings of a run."""

    image_size: int = 32
    channels: int = 96
    code_dim: int = 64
    num_codes: int = 128
    beta: float = 0.25
    decay: float = 0.99
    batch_size: int = 32
    steps: int = 6000
    lr: float = 3e-4
    log_every: int = 25


def make_images(count, size, seed=0):
    """Sums of random gratings and discs, scaled to [-1, 1]."""
    gen = torch.Generator().manual_seed(seed)
    ys, xs = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    angle = torch.rand(count, 3, 1, 1, generator=gen) * 6.283
    freq = torch.rand(count, 3, 1, 1, generator=gen) * 10 + 2
    phase = torch.rand(count, 3, 1, 1, generator=gen) * 6.283
    gratings = torch.sin(freq * (xs * angle.cos() + ys * angle.sin()) + phase)
    cx, cy = torch.rand(2, count, 1, 1, 1, generator=gen) * 1.6 - 0.8
    radius = torch.rand(count, 1, 1, 1, generator=gen) * 0.5 + 0.1
    disc = ((xs - cx) ** 2 + (ys - cy) ** 2 < radius**2).float()
    return gratings * 0.5 * (1 - disc) + disc * 0.9


class ResBlock(nn.Module):
    """Residual block of two convolutions."""

    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 1),
        )

    def forward(self, x):
        """Add the residual."""
        return x + self.body(x)


class VectorQuantizer(nn.Module):
    """Codebook with exponential moving averages (van den Oord et al., appendix A.1)."""

    def __init__(self, num_codes, dim, decay, eps=1e-5):
        super().__init__()
        self.num_codes = num_codes
        self.decay = decay
        self.eps = eps
        self.register_buffer("codebook", torch.randn(num_codes, dim))
        self.register_buffer("cluster_size", torch.ones(num_codes))
        self.register_buffer("code_sum", self.codebook.clone())

    @torch.no_grad()
    def nearest(self, flat):
        """Index of the nearest code of every vector."""
        distances = ((flat.unsqueeze(1) - self.codebook.unsqueeze(0)) ** 2).sum(dim=-1)
        return distances.argmin(dim=1)

    @torch.no_grad()
    def update(self, flat, index):
        """Move the codes toward the mean of the vectors assigned to them."""
        counts = torch.bincount(index, minlength=self.num_codes).to(flat.dtype)
        sums = torch.zeros_like(self.codebook).index_add_(0, index, flat)
        self.cluster_size.mul_(self.decay).add_(counts, alpha=1 - self.decay)
        self.code_sum.mul_(self.decay).add_(sums, alpha=1 - self.decay)
        total = self.cluster_size.sum()
        size = (self.cluster_size + self.eps) / (total + self.num_codes * self.eps) * total
        self.codebook.copy_(self.code_sum / size.unsqueeze(1))

    def forward(self, z):
        """Quantize a map of features, with a straight through gradient."""
        batch, dim, height, width = z.shape
        flat = z.permute(0, 2, 3, 1).reshape(-1, dim)
        index = self.nearest(flat.detach())
        quantized = self.codebook[index].view(batch, height, width, dim).permute(0, 3, 1, 2)
        if self.training:
            self.update(flat.detach(), index)
        commitment = nnf.mse_loss(z, quantized)
        usage = torch.bincount(index, minlength=self.num_codes).float() / index.numel()
        perplexity = torch.exp(-(usage * (usage + 1e-10).log()).sum())
        return z + (quantized - z).detach(), commitment, perplexity


class VQVAE(nn.Module):
    """Encoder, quantizer, decoder."""

    def __init__(self, cfg):
        super().__init__()
        ch = cfg.channels
        self.encoder = nn.Sequential(
            nn.Conv2d(3, ch // 2, 4, stride=2, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(ch // 2, ch, 4, stride=2, padding=1),
            ResBlock(ch),
            ResBlock(ch),
            nn.ReLU(inplace=True),
            nn.Conv2d(ch, cfg.code_dim, 1),
        )
        self.quantizer = VectorQuantizer(cfg.num_codes, cfg.code_dim, cfg.decay)
        self.decoder = nn.Sequential(
            nn.Conv2d(cfg.code_dim, ch, 3, padding=1),
            ResBlock(ch),
            ResBlock(ch),
            nn.ReLU(inplace=True),
            nn.ConvTranspose2d(ch, ch // 2, 4, stride=2, padding=1),
            nn.ReLU(inplace=True),
            nn.ConvTranspose2d(ch // 2, 3, 4, stride=2, padding=1),
        )

    def forward(self, x):
        """Reconstruct."""
        quantized, commitment, perplexity = self.quantizer(self.encoder(x))
        return self.decoder(quantized), commitment, perplexity


def train(cfg):
    """Train the autoencoder."""
    torch.manual_seed(0)
    images = make_images(4096, cfg.image_size)
    variance = images.var()
    model = VQVAE(cfg)
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    begun = time.perf_counter()
    for step in range(1, cfg.steps + 1):
        batch = images[torch.randint(0, len(images), (cfg.batch_size,))]
        recon, commitment, perplexity = model(batch)
        recon_loss = nnf.mse_loss(recon, batch) / variance
        loss = recon_loss + cfg.beta * commitment
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % cfg.log_every == 0:
            pace = step / (time.perf_counter() - begun)
            print(
                f"step {step:5d}  recon {recon_loss.item():.4f}  commit {commitment.item():.4f}  "
                f"perplexity {perplexity.item():.1f}  {pace:.1f} it/s",
                flush=True,
            )


if __name__ == "__main__":
    train(Config())
