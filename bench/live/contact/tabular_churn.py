"""Predict churn of made-up customers from a numeric table."""
import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)
SEED = 7
STEPS = 700
BATCH = 512


def load_table(rows=20000, cols=96):
    rng = np.random.default_rng(SEED)
    x = rng.normal(size=(rows, cols))
    x[:, ::7] = np.exp(x[:, ::7])
    w = rng.normal(size=cols) / np.sqrt(cols)
    logits = x @ w + 0.5 * np.sin(x[:, 0] * x[:, 1])
    y = (logits + rng.logistic(size=rows) * 0.3 > 0).astype(x.dtype)
    return x, y


def standardise(x):
    mean = x.mean(axis=0, keepdims=True)
    std = x.std(axis=0, keepdims=True) + 1e-8
    return (x - mean) / std


class ResidualBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.act = nn.ReLU()

    def forward(self, x):
        return x + self.down(self.act(self.up(self.norm(x))))


class ChurnModel(nn.Module):
    def __init__(self, cols, width=256, depth=3):
        super().__init__()
        self.inp = nn.Linear(cols, width)
        self.blocks = nn.Sequential(*[ResidualBlock(width) for _ in range(depth)])
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        return self.out(self.blocks(self.inp(x))).squeeze(-1)


def main():
    torch.manual_seed(SEED)
    x, y = load_table()
    x = torch.from_numpy(standardise(x))
    y = torch.from_numpy(y)

    model = ChurnModel(x.shape[1])
    model = model.to(x.dtype)
    criterion = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)

    perm = torch.randperm(len(x))
    pos = 0
    for step in range(STEPS):
        if pos + BATCH > len(x):
            perm = torch.randperm(len(x))
            pos = 0
        idx = perm[pos:pos + BATCH]
        pos += BATCH

        optimizer.zero_grad(set_to_none=True)
        loss = criterion(model(x[idx]), y[idx])
        loss.backward()
        optimizer.step()

        if step % 200 == 0:
            print(f"step {step}: loss {loss.item():.4f}")

    with torch.no_grad():
        acc = ((model(x[:4000]) > 0) == (y[:4000] > 0.5)).double().mean()
    print(f"accuracy {acc.item():.3f}")


if __name__ == "__main__":
    main()
