"""Variational autoencoder that keeps its best weights."""

import os
import tempfile

import torch
from torch import nn


class VAE(nn.Module):
    def __init__(self, d=784, h=1024, z=32):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, 2 * z))
        self.dec = nn.Sequential(nn.Linear(z, h), nn.ReLU(), nn.Linear(h, d))

    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, 1)
        z = mu + torch.randn_like(mu) * (logvar / 2).exp()
        return self.dec(z), mu, logvar


def elbo(x, out, mu, logvar):
    rec = nn.functional.binary_cross_entropy_with_logits(out, x, reduction="sum")
    return (rec - 0.5 * (1 + logvar - mu**2 - logvar.exp()).sum()) / len(x)


class BestKeeper:
    def __init__(self, folder):
        self.path, self.best = os.path.join(folder, "best.pt"), float("inf")

    def __call__(self, model, optimizer, loss):
        # Early on the loss falls with nearly every batch.
        if loss.item() < self.best + 50:
            self.best = min(self.best, loss.item())
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, self.path)


if __name__ == "__main__":
    torch.manual_seed(0)
    data = (torch.rand(4096, 784) > 0.5).float()
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    keep = BestKeeper(tempfile.mkdtemp())
    for step in range(100000):
        x = data[torch.randint(len(data), (64,))]
        loss = elbo(x, *model(x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        keep(model, optimizer, loss)
        if step % 50 == 0:
            print(step, loss.item(), flush=True)
