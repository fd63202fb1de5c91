"""beta-VAE on rendered seven-segment digits (small labelled subset)."""
import argparse
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SEGMENTS = ["1110111", "0010010", "1011101", "1011011", "0111010", "1101011", "1101111", "1010010", "1111111", "1111011"]


def render(digit, rng, size=32):
    img = np.zeros((size, size), dtype=np.float32)
    x0, y0 = rng.integers(2, 10, 2)
    w, h, t = 10, 9, 2
    spots = [(x0, y0, w, t), (x0, y0, t, h), (x0 + w - t, y0, t, h), (x0, y0 + h - 1, w, t),
             (x0, y0 + h, t, h), (x0 + w - t, y0 + h, t, h), (x0, y0 + 2 * h - 2, w, t)]
    for on, (x, y, dx, dy) in zip(SEGMENTS[digit], spots):
        if on == "1":
            img[y:y + dy, x:x + dx] = rng.uniform(0.7, 1.0)
    return np.clip(img + rng.normal(0, 0.05, img.shape), 0, 1).astype(np.float32)


class Digits(Dataset):
    def __init__(self, n=320):
        self.labels = np.arange(n) % 10

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        rng = np.random.default_rng()
        return torch.from_numpy(render(self.labels[i], rng)).unsqueeze(0), int(self.labels[i])


class VAE(nn.Module):
    def __init__(self, z=16, c=24):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(1, c, 4, 2, 1), nn.ReLU(), nn.Conv2d(c, 2 * c, 4, 2, 1), nn.ReLU(),
                                 nn.Flatten(), nn.Linear(2 * c * 64, 128), nn.ReLU())
        self.mu, self.logvar = nn.Linear(128, z), nn.Linear(128, z)
        self.fc = nn.Linear(z, 2 * c * 64)
        self.dec = nn.Sequential(nn.ConvTranspose2d(2 * c, c, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(c, 1, 4, 2, 1))
        self.c = c

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(F.relu(self.fc(z)).view(-1, 2 * self.c, 8, 8)), mu, logvar


def elbo(x, logits, mu, logvar, beta):
    rec = F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / len(x)
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum() / len(x)
    return rec + beta * kl


def main():
    args = argparse.Namespace(batch_size=64, epochs=1_000_000, lr=1e-3, beta=2.0, workers=2)
    loader = DataLoader(Digits(), batch_size=args.batch_size, shuffle=True, num_workers=args.workers, drop_last=True)
    vae = VAE()
    opt = torch.optim.Adam(vae.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        seen, total = 0, 0.0
        for x, _ in loader:
            logits, mu, logvar = vae(x)
            loss = elbo(x, logits, mu, logvar, args.beta)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
            seen += 1
        if epoch % 10 == 0:
            print(f"epoch {epoch}: -ELBO {total / seen:.2f}", flush=True)


if __name__ == "__main__":
    main()
