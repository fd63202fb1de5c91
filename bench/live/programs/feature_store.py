"""A ranking model that asks a database for each sample of a batch, in place of one query."""

import random
import sqlite3
import struct
import sys

import torch
from torch import nn

CURED = "--cured" in sys.argv
torch.manual_seed(0)
torch.set_num_threads(1)
store = sqlite3.connect("features.db")
store.execute("CREATE TABLE IF NOT EXISTS feature (item INTEGER PRIMARY KEY, raw BLOB)")
raw = [(item, struct.pack("<32f", *(random.random() for _ in range(32)))) for item in range(4096)]
store.executemany("INSERT OR REPLACE INTO feature VALUES (?, ?)", raw)
store.commit()


def fetch(items: list[int]) -> torch.Tensor:
    if CURED:
        marks = ",".join("?" * len(items))
        found = dict(store.execute(f"SELECT item, raw FROM feature WHERE item IN ({marks})", items))
        return torch.frombuffer(bytearray(b"".join(found[item] for item in items)), dtype=torch.float32).view(-1, 32)
    rows = []
    for item in items:
        (blob,) = store.execute(f"SELECT raw FROM feature WHERE item = {item}").fetchone()
        rows.append(torch.frombuffer(bytearray(blob), dtype=torch.float32))
    return torch.stack(rows)


def train() -> None:
    model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(100_000):
        items = [(step * 512 + place) * 37 % 4096 for place in range(512)]
        loss = model(fetch(items)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


train()
