"""Keyword spotting (12 words) from a packed archive of short clips."""
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

RATE = 8000
WORDS = 12


def write_archive(path: Path, clips: int = 240) -> None:
    """What the preparation script leaves behind."""
    rng = np.random.default_rng(0)
    t = np.arange(RATE // 2) / RATE
    labels = rng.integers(0, WORDS, clips)
    pitch = 200 + 60 * labels[:, None] + rng.normal(0, 5, (clips, 1))
    waves = np.sin(2 * np.pi * pitch * t) * np.hanning(len(t)) + rng.normal(0, 0.05, (clips, len(t)))
    np.savez_compressed(path, waves=(waves * 8000).astype(np.int16), labels=labels.astype(np.int64))


class SpeechCommands(Dataset):
    def __init__(self, path: Path, augment: bool = True):
        self.archive = np.load(path)
        self.size = len(self.archive["labels"])
        self.augment = augment

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        wave = self.archive["waves"][index].astype(np.float32) / 32768.0
        label = self.archive["labels"][index]
        if self.augment:
            wave = np.roll(wave, np.random.randint(-400, 400))
        return torch.from_numpy(wave), torch.tensor(label)


class LogSpectrogram(nn.Module):
    def __init__(self, n_fft=256, hop=80):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))

    def forward(self, wave):
        spec = torch.stft(wave, self.n_fft, self.hop, window=self.window, return_complex=True)
        return torch.log(spec.abs() + 1e-4)


class SpotNet(nn.Module):
    def __init__(self, width=40):
        super().__init__()
        self.front = LogSpectrogram()
        self.conv = nn.Sequential(
            nn.Conv1d(129, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, 2 * width, 5, stride=2, padding=2), nn.BatchNorm1d(2 * width), nn.ReLU(),
            nn.Conv1d(2 * width, 2 * width, 3, padding=1), nn.BatchNorm1d(2 * width), nn.ReLU(),
        )
        self.gru = nn.GRU(2 * width, 64, batch_first=True)
        self.fc = nn.Linear(64, WORDS)

    def forward(self, wave):
        x = self.conv(self.front(wave)).transpose(1, 2)
        _, h = self.gru(x)
        return self.fc(h[-1])


def main() -> None:
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.npz"
        write_archive(path)
        loader = DataLoader(SpeechCommands(path), batch_size=8, shuffle=True, drop_last=True)
        model = SpotNet()
        opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, 3e-3, total_steps=3_000_000)
        step = 0
        for epoch in range(100_000):
            hits = total = 0
            for wave, label in loader:
                logits = model(wave)
                loss = nn.functional.cross_entropy(logits, label, label_smoothing=0.1)
                opt.zero_grad()
                loss.backward()
                opt.step()
                sched.step()
                step += 1
                hits += int((logits.argmax(1) == label).sum())
                total += len(label)
            print(f"epoch {epoch} step {step} accuracy {hits / total:.3f}", flush=True)


if __name__ == "__main__":
    main()
