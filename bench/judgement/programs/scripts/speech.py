"""Keyword spotting from raw audio."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

RATE = 16000


class Recordings(Dataset):
    def __init__(self, n=512):
        gen = torch.Generator().manual_seed(0)
        self.waves = torch.randn(n, RATE, generator=gen) * 0.1
        self.labels = torch.randint(12, (n,), generator=gen)

    def __len__(self):
        return len(self.waves)

    def __getitem__(self, i):
        return self.waves[i], self.labels[i]


class Augment:
    """Speed perturbation, then a log spectrogram."""

    def __init__(self):
        self.window = torch.hann_window(400)

    def stretch(self, wave, factor):
        n = int(len(wave) / factor)
        out = torch.empty(n)
        for i in range(0, n, 16):
            at = i * factor
            low = int(at)
            frac = at - low
            hi = min(low + 16, len(wave) - 1)
            part = wave[low : low + 16] * (1 - frac) + wave[min(low + 1, hi)] * frac
            out[i : i + len(part)] = part[: n - i]
        return out[:RATE] if n >= RATE else nn.functional.pad(out, (0, RATE - n))

    def __call__(self, waves):
        waves = torch.stack([self.stretch(w, 1.1) for w in waves])
        spec = torch.stft(waves, 400, 160, window=self.window, return_complex=True).abs()
        return (spec + 1e-6).log()


class KeywordNet(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(201, width, 5, stride=2), nn.ReLU(), nn.Conv1d(width, width, 5, stride=2), nn.ReLU()
        )
        self.gru = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, 12)

    def forward(self, spec):
        h, _ = self.gru(self.conv(spec).transpose(1, 2))
        return self.head(h[:, -1])


def main():
    torch.manual_seed(0)
    loader = DataLoader(Recordings(), batch_size=16, shuffle=True, drop_last=True)
    augment, net = Augment(), KeywordNet()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    step = 0
    while True:
        for waves, labels in loader:
            loss = nn.functional.cross_entropy(net(augment(waves)), labels)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if step % 20 == 0:
                print(step, loss.item(), flush=True)


if __name__ == "__main__":
    main()
