"""A denoiser that draws noise for its whole set of pictures, and uses that of one batch."""

import sys

import torch
from torch import nn

CURED = "--cured" in sys.argv
torch.manual_seed(0)
torch.set_num_threads(1)
pictures = torch.rand(2048, 1, 28, 28)


def with_noise(first: int, batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    clean = pictures[first : first + batch]
    noise = torch.randn(clean.shape) if CURED else torch.randn(pictures.shape)[first : first + batch]
    return clean + 0.1 * noise, clean


net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(100_000):
    noisy, clean = with_noise(step * 32 % 2048, 32)
    loss = nn.functional.mse_loss(net(noisy), clean)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
