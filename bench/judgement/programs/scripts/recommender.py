"""Factorisation with a deep part, for click prediction."""

import torch
from torch import nn

USERS, ITEMS, DIM = 200_000, 100_000, 32


class DeepFM(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(USERS, DIM)
        self.item = nn.Embedding(ITEMS, DIM)
        self.deep = nn.Sequential(nn.Linear(2 * DIM, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, users, items):
        u, i = self.user(users), self.item(items)
        return (u * i).sum(1) + self.deep(torch.cat([u, i], 1)).squeeze(1)


class Clicks:
    def __init__(self, n=1_000_000):
        self.users = torch.randint(USERS, (n,))
        self.items = torch.randint(ITEMS, (n,))
        self.clicked = (torch.rand(n) < 0.2).float()

    def batches(self, size):
        order = torch.randperm(len(self.users))
        for start in range(0, len(order), size):
            at = order[start : start + size]
            yield self.users[at], self.items[at], self.clicked[at]


if __name__ == "__main__":
    torch.manual_seed(0)
    data, model = Clicks(), DeepFM()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.BCEWithLogitsLoss()
    step = 0
    for epoch in range(1000):
        for users, items, clicked in data.batches(1024):
            loss = criterion(model(users, items), clicked)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 50 == 0:
                print(step, loss.item(), flush=True)
