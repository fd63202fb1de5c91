"""Spots spoken words: log spectrograms and a small convolutional network."""
import gc

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

RATE, WORDS = 8000, 12


def mel_filters(bins=101, mels=40):
    top = 2595 * torch.log10(torch.tensor(1 + RATE / 2 / 700))
    points = 700 * (10 ** (torch.linspace(0, 1, mels + 2) * top / 2595) - 1)
    points = points / (RATE / 2) * (bins - 1)
    grid = torch.arange(bins).float()[:, None]
    up = (grid - points[:-2]) / (points[1:-1] - points[:-2])
    down = (points[2:] - grid) / (points[2:] - points[1:-1])
    return torch.minimum(up, down).clamp_min(0)


class SpeechCommands(Dataset):
    def __init__(self, n=1500):
        self.waves = torch.randn(n, RATE // 2)
        self.labels = torch.randint(0, WORDS, (n,))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        shift = int(torch.randint(-400, 401, ()))
        return self.waves[i].roll(shift), self.labels[i]


class LogMel(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(200))
        self.register_buffer("filters", mel_filters())

    def forward(self, wave):
        spectrum = torch.stft(wave, 200, 80, window=self.window, return_complex=True).abs().square()
        return (spectrum.transpose(1, 2) @ self.filters).clamp_min(1e-6).log().transpose(1, 2)


class Spotter(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.mel = LogMel()
        self.net = nn.Sequential(
            nn.Conv1d(40, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, width, 5, stride=2, padding=2), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, 2 * width, 3, padding=1), nn.ReLU(),
        )
        self.out = nn.Linear(2 * width, WORDS)

    def forward(self, wave):
        return self.out(self.net(self.mel(wave)).mean(2))


def train_one_batch(model, optimizer, wave, label):
    optimizer.zero_grad()
    logits = model(wave)
    loss = F.cross_entropy(logits, label)
    loss.backward()
    optimizer.step()
    del logits
    gc.collect()
    return loss.item()


def main():
    torch.manual_seed(0)
    loader = DataLoader(SpeechCommands(), batch_size=32, shuffle=True, drop_last=True)
    model = Spotter()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    step = 0
    for epoch in range(10_000):
        for wave, label in loader:
            loss = train_one_batch(model, optimizer, wave, label)
            step += 1
            if step % 50 == 0:
                print(f"epoch {epoch} step {step} loss {loss:.3f}", flush=True)


if __name__ == "__main__":
    main()
