"""Forecasts traffic of many sensors from their last hours: one recurrent encoder, a head for each sensor."""
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Windows(Dataset):
    def __init__(self, sensors=200, length=6000, history=36, horizon=12):
        t = torch.arange(length).float()
        phase = torch.rand(sensors, 1) * 2 * math.pi
        self.series = (torch.sin(t / 48 * 2 * math.pi + phase) + 0.1 * torch.randn(sensors, length)).T.contiguous()
        self.history, self.horizon = history, horizon

    def __len__(self):
        return len(self.series) - self.history - self.horizon

    def __getitem__(self, i):
        middle = i + self.history
        return self.series[i:middle], self.series[middle : middle + self.horizon]


class Heads(nn.Module):
    """Each sensor has weights of its own."""

    def __init__(self, sensors, inputs, horizon):
        super().__init__()
        self.heads = nn.ModuleList(nn.Linear(inputs, horizon) for _ in range(sensors))

    def forward(self, x):
        return torch.stack([head(x) for head in self.heads], 2)


class Forecaster(nn.Module):
    def __init__(self, sensors=200, hidden=64, horizon=12):
        super().__init__()
        self.mix = nn.Sequential(nn.Linear(sensors, hidden), nn.LayerNorm(hidden), nn.GELU())
        self.encoder = nn.GRU(hidden, hidden, batch_first=True)
        self.attention = nn.Linear(hidden, 1)
        self.heads = Heads(sensors, 2 * hidden, horizon)

    def forward(self, x):
        states, last = self.encoder(self.mix(x))
        weights = self.attention(states).softmax(1)
        context = (weights * states).sum(1)
        return self.heads(torch.cat([context, last[0]], 1))


def main():
    torch.manual_seed(0)
    loader = DataLoader(Windows(), batch_size=32, shuffle=True, drop_last=True)
    model = Forecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    step = 0
    for epoch in range(1000):
        for x, y in loader:
            loss = nn.functional.smooth_l1_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            step += 1
            if step % 50 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
