"""Forecast electricity-like load with dilated convolutions; live statistics beside it."""
import math
import threading
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(9)

CONTEXT, HORIZON, METERS = 168, 24, 16
BATCH = 32
STEPS = 600


def make_load(hours=6000):
    t = torch.arange(hours).float()
    phase = torch.rand(METERS, 1) * 6.28
    day = torch.sin(2 * math.pi * t / 24 + phase)
    week = 0.4 * torch.sin(2 * math.pi * t / 168 + phase)
    return day + week + 0.2 * torch.randn(METERS, hours)


class TCN(nn.Module):
    def __init__(self, ch=64, layers=5):
        super().__init__()
        self.inp = nn.Conv1d(METERS, ch, 1)
        self.convs = nn.ModuleList(
            nn.Conv1d(ch, ch, 3, padding=2 ** i, dilation=2 ** i) for i in range(layers))
        self.head = nn.Linear(ch, METERS * HORIZON)

    def forward(self, x):
        h = self.inp(x)
        for conv in self.convs:
            h = h + F.relu(conv(h))
        return self.head(h[:, :, -1]).view(-1, METERS, HORIZON)


class Dashboard(threading.Thread):
    """Keeps smoothed statistics of the loss for whoever wants to look."""

    def __init__(self, window=300000, period=0.01):
        super().__init__(daemon=True)
        self.losses = [1.0] * window
        self.window, self.period = window, period
        self.stats = {}
        self.stop = threading.Event()

    def push(self, value):
        self.losses.append(value)

    def summarise(self, values):
        total, square, smooth = 0.0, 0.0, values[0]
        for v in values:
            total += v
            square += v * v
            smooth = 0.99 * smooth + 0.01 * v
        mean = total / len(values)
        return {"mean": mean, "std": max(0.0, square / len(values) - mean * mean) ** 0.5,
                "smooth": smooth}

    def run(self):
        while not self.stop.is_set():
            self.stats = self.summarise(self.losses[-self.window:])
            time.sleep(self.period)


def main():
    load = make_load()
    windows = load.unfold(1, CONTEXT + HORIZON, 1).permute(1, 0, 2)
    model = TCN()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    board = Dashboard()
    board.start()
    for step in range(STEPS):
        pick = torch.randint(0, len(windows), (BATCH,))
        batch = windows[pick]
        x, y = batch[..., :CONTEXT], batch[..., CONTEXT:]
        loss = F.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        board.push(loss.item())
        if (step + 1) % 100 == 0:
            print(step + 1, {k: round(v, 3) for k, v in board.stats.items()})
    board.stop.set()
    board.join()


if __name__ == "__main__":
    main()
