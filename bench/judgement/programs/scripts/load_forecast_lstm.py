"""Day ahead forecast of electricity load with an encoder-decoder LSTM."""

import argparse
import time

import numpy as np
import torch
from torch import nn


class StandardScaler:
    """Zero mean and unit variance per column."""

    def fit(self, values):
        """Remember the statistics."""
        self.mean = values.mean(axis=0)
        self.std = values.std(axis=0) + 1e-8
        return self

    def transform(self, values):
        """Scale."""
        return (values - self.mean) / self.std

    def inverse(self, values, column=0):
        """Undo the scaling of one column."""
        return values * self.std[column] + self.mean[column]


def synthetic_load(hours, stations, seed=0):
    """Hourly load with daily and weekly cycles, temperature, and noise; columns per station."""
    rng = np.random.default_rng(seed)
    t = np.arange(hours)[:, None]
    base = rng.uniform(200, 900, stations)
    daily = 0.25 * np.sin(2 * np.pi * (t / 24 + rng.uniform(0, 0.1, stations)))
    weekly = -0.12 * ((t // 24) % 7 >= 5)
    temperature = 10 - 12 * np.cos(2 * np.pi * t / 8760) + 5 * np.sin(2 * np.pi * t / 24)
    temperature = temperature + np.cumsum(rng.normal(0, 0.05, (hours, stations)), axis=0)
    heating = 0.01 * np.maximum(0, 15 - temperature)
    load = base * (1 + daily + weekly + heating + rng.normal(0, 0.03, (hours, stations)))
    return load, temperature


def calendar(hours):
    """Sine and cosine of hour and weekday."""
    t = np.arange(hours)
    angles = np.stack([2 * np.pi * t / 24, 2 * np.pi * t / 168], axis=1)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


class WindowSampler:
    """Random windows of history with the horizon that follows."""

    def __init__(self, load, temperature, history, horizon):
        self.history = history
        self.horizon = horizon
        self.scaler = StandardScaler().fit(load)
        scaled = self.scaler.transform(load)
        weather = StandardScaler().fit(temperature).transform(temperature)
        self.target = torch.from_numpy(scaled)
        self.covariates = torch.from_numpy(calendar(len(load)))
        self.weather = torch.from_numpy(weather)

    def sample(self, batch_size):
        """Encoder input, decoder input and target of a batch."""
        span = self.history + self.horizon
        start = torch.randint(0, len(self.target) - span, (batch_size, 1))
        rows = start + torch.arange(span)
        station = torch.randint(0, self.target.shape[1], (batch_size, 1))
        load = self.target[rows, station]
        known = torch.cat([self.covariates[rows], self.weather[rows, station].unsqueeze(-1)], dim=-1)
        past = torch.cat([load[:, : self.history, None], known[:, : self.history]], dim=-1)
        return past, known[:, self.history :], load[:, self.history :]


class Seq2Seq(nn.Module):
    """LSTM encoder and decoder with a Gaussian output."""

    def __init__(self, known, hidden, dropout=0.1):
        super().__init__()
        self.encoder = nn.LSTM(known + 1, hidden, batch_first=True)
        self.decoder = nn.LSTM(known, hidden, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, 2))

    def forward(self, past, future):
        """Mean and log scale of every hour ahead."""
        _, state = self.encoder(past)
        out, _ = self.decoder(future, state)
        mean, log_scale = self.head(out).unbind(-1)
        return mean, log_scale.clamp(-5, 3)


def gaussian_nll(mean, log_scale, target):
    """Negative log likelihood without the constant."""
    return (log_scale + 0.5 * ((target - mean) * torch.exp(-log_scale)).square()).mean()


class Forecaster:
    """Owns the model, its optimizer and the loop."""

    def __init__(self, args):
        self.args = args
        load, temperature = synthetic_load(args.hours, args.stations)
        split = int(args.hours * 0.9)
        self.train_data = WindowSampler(load[:split], temperature[:split], args.history, args.horizon)
        self.val_data = WindowSampler(load[split:], temperature[split:], args.history, args.horizon)
        self.model = Seq2Seq(known=5, hidden=args.hidden).double()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=args.lr)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, args.steps)

    def train_step(self):
        """One update."""
        past, future, target = self.train_data.sample(self.args.batch_size)
        loss = gaussian_nll(*self.model(past, future), target)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.scheduler.step()
        return loss.detach()

    @torch.no_grad()
    def validate(self):
        """Mean absolute error on the held out year, in units of the scaled load."""
        self.model.eval()
        past, future, target = self.val_data.sample(128)
        mean, _ = self.model(past, future)
        self.model.train()
        return (mean - target).abs().mean().item()

    def fit(self):
        """Train and report."""
        begun = time.time()
        for step in range(1, self.args.steps + 1):
            loss = self.train_step()
            if step % 50 == 0:
                pace = (time.time() - begun) / step
                print(f"step {step} nll {loss.item():.4f} {1000 * pace:.0f} ms", flush=True)
            if step % 500 == 0:
                print(f"validation mae {self.validate():.4f}", flush=True)


def main():
    """Parse and fit."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--hours", type=int, default=8760 * 2)
    parser.add_argument("--stations", type=int, default=40)
    parser.add_argument("--history", type=int, default=96)
    parser.add_argument("--horizon", type=int, default=24)
    parser.add_argument("--hidden", type=int, default=96)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--steps", type=int, default=8000)
    args = parser.parse_args()
    torch.manual_seed(2024)
    Forecaster(args).fit()


if __name__ == "__main__":
    main()
