"""Beta-VAE on infrared spectra, with a run log in JSON lines."""
import dataclasses
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclasses.dataclass
class Settings:
    bands: int = 800
    hidden: int = 768
    latent: int = 16
    beta: float = 0.1
    batch: int = 160
    lr: float = 5e-4
    steps: int = 1_000_000
    scalars_every: int = 10
    histograms_every: int = 1


class RunLog:
    def __init__(self, folder):
        self.file = open(Path(folder) / "run.jsonl", "w")
        self.began = time.time()

    def scalar(self, name, value, step):
        self._write({"name": name, "value": float(value), "step": step})

    def histogram(self, name, tensor, step, bins=64):
        counts, edges = np.histogram(tensor.detach().numpy(), bins=bins)
        self._write({"name": name, "counts": counts.tolist(), "low": float(edges[0]), "high": float(edges[-1]), "step": step})

    def _write(self, row):
        row["t"] = round(time.time() - self.began, 3)
        self.file.write(json.dumps(row) + "\n")


def spectra(count, bands, seed):
    rng = np.random.default_rng(seed)
    axis = np.linspace(0, 1, bands)[None]
    out = np.zeros((count, bands))
    for _ in range(5):
        place = rng.choice([0.15, 0.3, 0.42, 0.6, 0.77, 0.9], (count, 1)) + rng.normal(0, 0.01, (count, 1))
        out += rng.uniform(0.1, 1.0, (count, 1)) * np.exp(-((axis - place) ** 2) / (2 * 0.015**2))
    return torch.from_numpy((out + rng.normal(0, 0.01, out.shape)).astype(np.float32))


class SpectraVAE(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(s.bands, s.hidden), nn.GELU(), nn.Linear(s.hidden, s.hidden // 2), nn.GELU())
        self.mean = nn.Linear(s.hidden // 2, s.latent)
        self.logvar = nn.Linear(s.hidden // 2, s.latent)
        self.decoder = nn.Sequential(
            nn.Linear(s.latent, s.hidden // 2), nn.GELU(), nn.Linear(s.hidden // 2, s.hidden), nn.GELU(), nn.Linear(s.hidden, s.bands)
        )

    def forward(self, x):
        h = self.encoder(x)
        mean, logvar = self.mean(h), self.logvar(h)
        z = mean + torch.randn_like(mean) * (0.5 * logvar).exp()
        return self.decoder(z), mean, logvar


def elbo(x, recon, mean, logvar, beta):
    rec = F.mse_loss(recon, x, reduction="sum") / len(x)
    kl = -0.5 * (1 + logvar - mean.pow(2) - logvar.exp()).sum(1).mean()
    return rec + beta * kl, rec, kl


def log_model(run_log, model, step):
    for name, parameter in model.named_parameters():
        run_log.histogram(f"weights/{name}", parameter, step)
        run_log.histogram(f"grads/{name}", parameter.grad, step)


def fit(s, data, run_log):
    model = SpectraVAE(s)
    optimizer = torch.optim.SGD(model.parameters(), lr=s.lr, momentum=0.9)
    for step in range(1, s.steps + 1):
        x = data[torch.randint(0, len(data), (s.batch,))]
        recon, mean, logvar = model(x)
        loss, rec, kl = elbo(x, recon, mean, logvar, s.beta)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % s.scalars_every == 0:
            run_log.scalar("loss", loss, step)
            run_log.scalar("reconstruction", rec, step)
            run_log.scalar("kl", kl, step)
        if step % s.histograms_every == 0:
            log_model(run_log, model, step)
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f} rec {rec.item():.3f} kl {kl.item():.3f}", flush=True)


def main():
    torch.manual_seed(4)
    torch.set_num_threads(1)
    s = Settings()
    with tempfile.TemporaryDirectory() as folder:
        fit(s, spectra(5000, s.bands, 4), RunLog(folder))


if __name__ == "__main__":
    main()
