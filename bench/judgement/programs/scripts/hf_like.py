"""Text classification with a trainer and a collator, in the manner of Hugging Face."""

import random
import re

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

WORDS = [f"word{i}" for i in range(3000)]


class WordTokenizer:
    def __init__(self):
        self.vocab = {w: i + 2 for i, w in enumerate(WORDS)}
        self.pattern = re.compile(r"\w+|[^\w\s]")

    def encode(self, text):
        pieces = []
        for word in self.pattern.findall(text.lower()):
            if word in self.vocab:
                pieces.append(self.vocab[word])
            else:
                pieces.extend(ord(c) % 100 for c in word)
        return pieces[:128]


class ReviewDataset(Dataset):
    def __init__(self, n=2000):
        rng = random.Random(0)
        self.texts = [
            " ".join(rng.choice(WORDS) + rng.choice(["", ",", ".", "!"]) for _ in range(400)) for _ in range(n)
        ]
        self.labels = [rng.randrange(2) for _ in range(n)]

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        return {"text": self.texts[i], "label": self.labels[i]}


class Collator:
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def __call__(self, rows):
        ids = [self.tokenizer.encode(row["text"]) for row in rows]
        longest = max(map(len, ids))
        batch = torch.zeros(len(ids), longest, dtype=torch.long)
        for i, row in enumerate(ids):
            batch[i, : len(row)] = torch.tensor(row)
        return {"input_ids": batch, "labels": torch.tensor([row["label"] for row in rows])}


class Model(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.emb = nn.Embedding(3200, dim, padding_idx=0)
        layer = nn.TransformerEncoderLayer(dim, 4, 2 * dim, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 1)
        self.cls = nn.Linear(dim, 2)

    def forward(self, input_ids, labels):
        h = self.enc(self.emb(input_ids), src_key_padding_mask=input_ids == 0)
        logits = self.cls(h.mean(1))
        return nn.functional.cross_entropy(logits, labels), logits


class Trainer:
    def __init__(self, model, dataset, collator, lr=1e-3, batch_size=64, max_steps=100000):
        self.model, self.max_steps = model, max_steps
        self.loader = DataLoader(dataset, batch_size=batch_size, shuffle=True, collate_fn=collator)
        self.optimizer, self.scheduler = self.create_optimizer_and_scheduler(lr)

    def create_optimizer_and_scheduler(self, lr):
        decay = [p for p in self.model.parameters() if p.ndim >= 2]
        rest = [p for p in self.model.parameters() if p.ndim < 2]
        opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.01}, {"params": rest, "weight_decay": 0.0}], lr=lr)
        return opt, torch.optim.lr_scheduler.LambdaLR(opt, lambda s: max(0.0, 1 - s / self.max_steps))

    def training_step(self, inputs):
        loss, _ = self.model(**inputs)
        loss.backward()
        return loss.detach()

    def train(self):
        step, total = 0, torch.zeros(())
        while step < self.max_steps:
            for inputs in self.loader:
                total += self.training_step(inputs)
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
                self.scheduler.step()
                self.optimizer.zero_grad()
                step += 1
                if step % 50 == 0:
                    print({"step": step, "loss": (total / 50).item()}, flush=True)
                    total.zero_()


if __name__ == "__main__":
    torch.manual_seed(0)
    Trainer(Model(), ReviewDataset(), Collator(WordTokenizer())).train()
