# Electricity load forecasting: 7 days in, 24 hours out. TCN after Bai et al.
import numpy as np
import torch
import torch.nn as nn

torch.set_default_dtype(torch.float64)  # the meters come as numpy doubles

N_METERS = 40
HISTORY = 168
HORIZON = 24
BATCH = 32


def make_series(n=N_METERS, hours=24 * 200, seed=7):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)
    daily = np.sin(2 * np.pi * t / 24)[None] * rng.uniform(0.5, 2.0, (n, 1))
    weekly = np.sin(2 * np.pi * t / 168)[None] * rng.uniform(0.1, 1.0, (n, 1))
    noise = rng.normal(0, 0.2, (n, hours))
    s = daily + weekly + noise + rng.uniform(1, 5, (n, 1))
    return (s - s.mean(1, keepdims=True)) / s.std(1, keepdims=True)


class Chomp(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        return x[..., : -self.k]


class TemporalBlock(nn.Module):
    def __init__(self, cin, cout, dilation, k=3, p=0.1):
        super().__init__()
        pad = (k - 1) * dilation
        self.net = nn.Sequential(
            nn.Conv1d(cin, cout, k, padding=pad, dilation=dilation), Chomp(pad), nn.ReLU(), nn.Dropout(p),
            nn.Conv1d(cout, cout, k, padding=pad, dilation=dilation), Chomp(pad), nn.ReLU(), nn.Dropout(p),
        )
        self.down = nn.Conv1d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x):
        return torch.relu(self.net(x) + self.down(x))


class TCN(nn.Module):
    def __init__(self, channels=(48, 48, 48, 48)):
        super().__init__()
        layers, c = [], 1
        for i, w in enumerate(channels):
            layers.append(TemporalBlock(c, w, 2 ** i))
            c = w
        self.tcn = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Linear(c, 128), nn.GELU(), nn.Linear(128, HORIZON))

    def forward(self, x):
        return self.head(self.tcn(x.unsqueeze(1))[..., -1])


def sample(windows, rng):
    m = rng.integers(0, windows.shape[0], BATCH)
    s = rng.integers(0, windows.shape[1], BATCH)
    w = torch.from_numpy(windows[m, s])
    return w[:, :HISTORY], w[:, HISTORY:]


series = make_series()
windows = np.lib.stride_tricks.sliding_window_view(series, HISTORY + HORIZON, axis=1)
rng = np.random.default_rng(0)
model = TCN()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
criterion = nn.HuberLoss()

if __name__ == "__main__":
    running = 0.0
    for it in range(10_000_000):
        x, y = sample(windows, rng)
        pred = model(x)
        loss = criterion(pred, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.item()
        if (it + 1) % 100 == 0:
            print(f"iter {it + 1}: huber {running / 100:.4f}", flush=True)
            running = 0.0
