"""Predicts which customers leave, from a table of numbers and categories."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CARDINALITIES = (12, 50, 7, 300)


def load_table(rows=40_000, columns=96):
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(rows, columns))
    numbers = (numbers - numbers.mean(0)) / numbers.std(0)
    categories = np.stack([rng.integers(0, c, rows) for c in CARDINALITIES], 1)
    target = (numbers[:, :5].sum(1) + rng.normal(size=rows) > 0).astype(np.float64)
    return numbers, categories, target


class TabularNet(nn.Module):
    def __init__(self, columns, hidden=(512, 512, 256)):
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(c, min(32, c // 2 + 1)) for c in CARDINALITIES)
        width = columns + sum(e.embedding_dim for e in self.embeddings)
        layers = []
        for h in hidden:
            layers += [nn.Linear(width, h), nn.BatchNorm1d(h), nn.ReLU(), nn.Dropout(0.1)]
            width = h
        self.mlp = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, numbers, categories):
        embedded = [e(categories[:, i]) for i, e in enumerate(self.embeddings)]
        return self.mlp(torch.cat([numbers, *embedded], 1)).squeeze(1)


def main():
    torch.manual_seed(0)
    numbers, categories, target = load_table()
    x, c, y = torch.from_numpy(numbers), torch.from_numpy(categories), torch.from_numpy(target)
    model = TabularNet(x.shape[1]).double()
    dataset = TensorDataset(x, c, y)
    loader = DataLoader(dataset, batch_size=512, shuffle=True, drop_last=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-5)
    criterion = nn.BCEWithLogitsLoss()
    step = 0
    for epoch in range(1000):
        model.train()
        running = 0.0
        for numbers_batch, categories_batch, target_batch in loader:
            optimizer.zero_grad()
            loss = criterion(model(numbers_batch, categories_batch), target_batch)
            loss.backward()
            optimizer.step()
            running += loss.item()
            step += 1
            if step % 50 == 0:
                print(f"epoch {epoch} step {step} loss {running / 50:.4f}", flush=True)
                running = 0.0


if __name__ == "__main__":
    main()
