"""Two-tower ranking model for implicit movie feedback."""
import argparse
import time

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F


class Config:
    n_users = 90_000
    n_items = 30_000
    n_genres = 24
    dim = 48
    batch_size = 2048
    negatives = 1
    lr = 0.05
    interactions = 400_000


class TwoTower(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.user_emb = nn.Embedding(cfg.n_users, cfg.dim)
        self.item_emb = nn.Embedding(cfg.n_items, cfg.dim)
        self.genre_emb = nn.Embedding(cfg.n_genres, 16)
        self.user_mlp = nn.Sequential(nn.Linear(cfg.dim, 128), nn.ReLU(), nn.Linear(128, 64))
        self.item_mlp = nn.Sequential(nn.Linear(cfg.dim + 16, 128), nn.ReLU(), nn.Linear(128, 64))
        nn.init.normal_(self.user_emb.weight, std=0.05)
        nn.init.normal_(self.item_emb.weight, std=0.05)

    def user(self, users):
        return F.normalize(self.user_mlp(self.user_emb(users)), dim=-1)

    def item(self, items, genres):
        joined = torch.cat([self.item_emb(items), self.genre_emb(genres)], dim=-1)
        return F.normalize(self.item_mlp(joined), dim=-1)

    def forward(self, users, items, genres):
        return 8.0 * (self.user(users) * self.item(items, genres)).sum(-1)


class Interactions:
    """Shuffled mini-batches of (user, item, label), negatives drawn on the fly."""

    def __init__(self, cfg, seed=3):
        self.cfg = cfg
        self.rng = np.random.default_rng(seed)
        self.users = self.rng.integers(0, cfg.n_users, cfg.interactions)
        popularity = self.rng.zipf(1.3, cfg.interactions)
        self.items = popularity % cfg.n_items
        self.genres = self.rng.integers(0, cfg.n_genres, cfg.n_items)

    def batches(self):
        order = self.rng.permutation(len(self.users))
        size = self.cfg.batch_size
        for start in range(0, len(order) - size, size):
            rows = order[start:start + size]
            users, items = self.users[rows], self.items[rows]
            wrong = self.rng.integers(0, self.cfg.n_items, size * self.cfg.negatives)
            users = np.concatenate([users, np.repeat(users, self.cfg.negatives)])
            items = np.concatenate([items, wrong])
            labels = np.zeros(len(users), dtype=np.float32)
            labels[:size] = 1.0
            yield (
                torch.from_numpy(users),
                torch.from_numpy(items),
                torch.from_numpy(self.genres[items]),
                torch.from_numpy(labels),
            )


def train_one_epoch(model, optimizer, data, epoch, log_every):
    running, seen, began = 0.0, 0, time.perf_counter()
    for i, (users, items, genres, labels) in enumerate(data.batches(), start=1):
        scores = model(users, items, genres)
        loss = F.binary_cross_entropy_with_logits(scores, labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        running += loss.item()
        seen += len(labels)
        if i % log_every == 0:
            rate = seen / (time.perf_counter() - began)
            print(f"epoch {epoch} batch {i} loss {running / i:.4f} {rate:.0f} rows/s", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10_000)
    parser.add_argument("--log-every", type=int, default=50)
    args = parser.parse_args()
    torch.manual_seed(3)
    torch.set_num_threads(1)
    cfg = Config()
    data = Interactions(cfg)
    model = TwoTower(cfg)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=cfg.lr)
    for epoch in range(args.epochs):
        train_one_epoch(model, optimizer, data, epoch, args.log_every)


if __name__ == "__main__":
    main()
