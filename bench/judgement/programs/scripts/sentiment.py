"""Fine-tunes a small BERT-like encoder on short reviews, with gradient accumulation."""
import math
import random

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, Dataset

VOCAB, PAD, MAX_LEN = 8000, 0, 128


class Reviews(Dataset):
    def __init__(self, n=4096, seed=0):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(n):
            label = rng.randint(0, 1)
            length = rng.randint(8, 30)
            low, high = (1, 5000) if label else (3000, VOCAB - 1)
            self.rows.append(([rng.randint(low, high) for _ in range(length)], label))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(batch):
    ids = torch.full((len(batch), MAX_LEN), PAD)
    for i, (tokens, _) in enumerate(batch):
        ids[i, : len(tokens)] = torch.tensor(tokens)
    labels = torch.tensor([label for _, label in batch])
    return {"input_ids": ids, "attention_mask": ids != PAD, "labels": labels}


class Encoder(nn.Module):
    def __init__(self, dim=128, heads=4, layers=3):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.pos = nn.Embedding(512, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.1, batch_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(dim, 2)

    def forward(self, input_ids, attention_mask):
        x = self.tok(input_ids) + self.pos(torch.arange(input_ids.size(1)))
        x = self.encoder(x, src_key_padding_mask=~attention_mask)
        mask = attention_mask.unsqueeze(-1)
        return self.head((x * mask).sum(1) / mask.sum(1))


def main():
    torch.manual_seed(0)
    loader = DataLoader(Reviews(), batch_size=8, shuffle=True, collate_fn=collate)
    model = Encoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01)
    scheduler = LambdaLR(optimizer, lambda s: 0.5 * (1 + math.cos(math.pi * min(s, 5000) / 5000)))
    accumulate, step = 2, 0
    for epoch in range(1000):
        for i, batch in enumerate(loader):
            logits = model(batch["input_ids"], batch["attention_mask"])
            loss = nn.functional.cross_entropy(logits, batch["labels"]) / accumulate
            loss.backward()
            if (i + 1) % accumulate == 0:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad(set_to_none=True)
                step += 1
                if step % 50 == 0:
                    print(f"epoch {epoch} step {step} loss {loss.item() * accumulate:.4f}", flush=True)


if __name__ == "__main__":
    main()
