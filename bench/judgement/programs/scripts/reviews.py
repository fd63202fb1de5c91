"""Rates product reviews with a bag of embeddings and a convolution over words; rows come from a JSON-lines file."""
import itertools
import json
import random
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

VOCAB = 20000


def write_corpus(path, rows=4000):
    rng = random.Random(0)
    with open(path, "w") as file:
        for i in range(rows):
            ids = [rng.randrange(1, VOCAB) for _ in range(rng.randint(30, 60))]
            file.write(json.dumps({"id": i, "ids": ids, "stars": rng.randint(1, 5)}) + "\n")


class JsonLines(Dataset):
    def __init__(self, path):
        self.path = path
        with open(path) as file:
            self.n = sum(1 for _ in file)

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        with open(self.path) as file:
            line = next(itertools.islice(file, i, None))
        row = json.loads(line)
        return torch.tensor(row["ids"]), row["stars"] - 1


def collate(batch):
    ids = nn.utils.rnn.pad_sequence([b[0] for b in batch], batch_first=True)
    return ids, torch.tensor([b[1] for b in batch])


class TextCNN(nn.Module):
    def __init__(self, dim=96, width=96):
        super().__init__()
        self.embed = nn.EmbeddingBag(VOCAB, 16, mode="mean", padding_idx=0)
        self.words = nn.Embedding(VOCAB // 10, dim)
        self.convs = nn.ModuleList(nn.Conv1d(dim, width, k, padding=k // 2) for k in (3, 5))
        self.out = nn.Linear(2 * width + 16, 5)

    def forward(self, ids):
        x = self.words(ids % (VOCAB // 10)).transpose(1, 2)
        pooled = [F.relu(conv(x)).amax(2) for conv in self.convs]
        return self.out(torch.cat([*pooled, self.embed(ids)], 1))


def main():
    torch.manual_seed(0)
    path = Path(tempfile.mkdtemp()) / "reviews.jsonl"
    write_corpus(path)
    loader = DataLoader(JsonLines(path), batch_size=48, shuffle=True, collate_fn=collate)
    model = TextCNN()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step = 0
    for epoch in range(1000):
        for ids, stars in loader:
            loss = F.cross_entropy(model(ids), stars)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 50 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
