"""Keyword spotting on synthetic chirps: spectrogram + 1-d convolutions."""
import math
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(5)

RATE = 8000
CLASSES = 10
STEPS = 500
BATCH = 24
SAVE_EVERY = 200


def make_waves(n):
    t = torch.arange(RATE) / RATE
    y = torch.randint(0, CLASSES, (n,))
    f0 = 200 + 150 * y[:, None] + 30 * torch.randn(n, 1)
    sweep = 1 + 0.5 * t[None] * (y[:, None] % 3 - 1)
    wave = torch.sin(2 * math.pi * f0 * sweep * t[None])
    return wave + 0.3 * torch.randn(n, RATE), y


class Spotter(nn.Module):
    def __init__(self, n_fft=256, hop=128, width=192):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        bins = n_fft // 2 + 1
        self.net = nn.Sequential(
            nn.Conv1d(bins, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(width, 2 * width, 5, padding=2), nn.BatchNorm1d(2 * width), nn.ReLU(),
        )
        self.head = nn.Linear(2 * width, CLASSES)

    def forward(self, wave):
        spec = torch.stft(wave, self.n_fft, self.hop, window=self.window, return_complex=True)
        spec = torch.log1p(spec.abs())
        return self.head(self.net(spec).mean(-1))


class Trainer:
    def __init__(self, folder):
        self.folder = folder
        self.model = Spotter()
        self.opt = torch.optim.Adam(self.model.parameters(), lr=1e-3, fused=True)
        self.step = 0

    def save(self):
        path = os.path.join(self.folder, "last.pt")
        with open(path + ".tmp", "wb") as f:
            torch.save({"step": self.step, "model": self.model.state_dict(),
                        "opt": self.opt.state_dict()}, f)
            f.flush()
            os.fsync(f.fileno())
        os.replace(path + ".tmp", path)

    def train_step(self, wave, label):
        self.opt.zero_grad()
        loss = F.cross_entropy(self.model(wave), label)
        loss.backward()
        self.opt.step()
        self.step += 1
        if self.step % SAVE_EVERY == 0:
            self.save()
        return loss


def main():
    waves, labels = make_waves(1500)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(folder)
        for step in range(STEPS):
            pick = torch.randint(0, len(waves), (BATCH,))
            loss = trainer.train_step(waves[pick], labels[pick])
            if step % 100 == 0:
                print(f"{step:4d} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
