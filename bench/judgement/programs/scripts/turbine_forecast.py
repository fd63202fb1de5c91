# forecast turbine power 12 steps ahead from 96 steps of sensor readings
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

N_SENSORS = 14
HISTORY = 96
HORIZON = 12
BATCH_SIZE = 48
EPOCHS = 100000


def simulate(n_steps, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(n_steps)
    wind = 8 + 3 * np.sin(2 * np.pi * t / 144) + rng.normal(0, 1, n_steps).cumsum() * 0.01
    sensors = [wind]
    for k in range(1, N_SENSORS):
        lag = np.roll(wind, k)
        sensors.append(lag * rng.uniform(0.5, 1.5) + rng.normal(0, 0.5, n_steps))
    power = np.clip(wind, 3, 12) ** 3 / 1728 + rng.normal(0, 0.02, n_steps)
    return np.stack(sensors, axis=1), power


def windows(sensors, power):
    mean, std = sensors.mean(0), sensors.std(0)
    sensors = (sensors - mean) / std
    x, y = [], []
    for start in range(0, len(power) - HISTORY - HORIZON, 3):
        x.append(sensors[start:start + HISTORY])
        y.append(power[start + HISTORY:start + HISTORY + HORIZON])
    return np.array(x), np.array(y)


class Forecaster(nn.Module):
    def __init__(self, dim=64, heads=4, layers=2):
        super().__init__()
        self.inp = nn.Linear(N_SENSORS, dim)
        self.pos = nn.Parameter(torch.zeros(1, HISTORY, dim))
        layer = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, HORIZON)

    def forward(self, x):
        h = self.inp(x) + self.pos
        h = self.encoder(h)
        return self.out(self.norm(h[:, -1]))


def validate(model, loader):
    model.eval()
    errors = []
    with torch.no_grad():
        for x, y in loader:
            errors.append((model(x) - y).abs().mean())
    model.train()
    return torch.stack(errors).mean().item()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    sensors, power = simulate(40000)
    x, y = windows(sensors, power)
    split = len(x) - 256
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    train_loader = DataLoader(TensorDataset(x[:split], y[:split]), batch_size=BATCH_SIZE, shuffle=True)
    valid_loader = DataLoader(TensorDataset(x[split:], y[split:]), batch_size=128)

    model = Forecaster().double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    criterion = nn.HuberLoss()

    for epoch in range(EPOCHS):
        began = time.time()
        total = 0.0
        for i, (xb, yb) in enumerate(train_loader):
            pred = model(xb)
            loss = criterion(pred, yb)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item()
            if i % 50 == 49:
                print(f"  epoch {epoch} batch {i + 1}/{len(train_loader)} loss {total / (i + 1):.5f}", flush=True)
        mae = validate(model, valid_loader)
        print(f"epoch {epoch} loss {total / len(train_loader):.5f} valid mae {mae:.4f} ({time.time() - began:.1f}s)", flush=True)


if __name__ == "__main__":
    main()
