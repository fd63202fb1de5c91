"""Intents of short requests with a small BERT from transformers."""
import argparse
import random
import time

import torch
import torch.nn as nn
from transformers import BertConfig, BertForSequenceClassification

INTENTS = {
    "weather": ["rain", "sunny", "forecast", "cold", "wind"],
    "music": ["play", "song", "album", "louder", "artist"],
    "travel": ["flight", "hotel", "train", "ticket", "station"],
    "food": ["pizza", "order", "table", "hungry", "recipe"],
}
FILLER = [f"w{i}" for i in range(800)]


def requests(count, seed):
    rng = random.Random(seed)
    names = list(INTENTS)
    words = [w for group in INTENTS.values() for w in group] + FILLER
    lookup = {w: i + 2 for i, w in enumerate(words)}
    rows = []
    for _ in range(count):
        label = rng.randrange(len(names))
        text = [rng.choice(FILLER) for _ in range(rng.randint(12, 40))]
        text[rng.randrange(len(text))] = rng.choice(INTENTS[names[label]])
        rows.append(([1] + [lookup[w] for w in text], label))
    return rows, len(lookup) + 2


def batches(rows, batch_size):
    rows = sorted(rows, key=lambda row: len(row[0]))
    made = []
    for i in range(0, len(rows), batch_size):
        part = rows[i:i + batch_size]
        ids = nn.utils.rnn.pad_sequence([torch.tensor(ids) for ids, _ in part], batch_first=True)
        made.append({"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": torch.tensor([y for _, y in part])})
    return made


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument("--epochs", type=int, default=100_000)
    args = parser.parse_args()
    torch.manual_seed(19)
    torch.set_num_threads(1)
    rows, vocabulary = requests(4000, 19)
    data = batches(rows, args.batch_size)
    model = BertForSequenceClassification(BertConfig(
        vocab_size=vocabulary, hidden_size=192, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=768, max_position_embeddings=64, num_labels=len(INTENTS),
    ))
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=True)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=300)
    step, began = 0, time.time()
    for epoch in range(args.epochs):
        for i in torch.randperm(len(data)).tolist():
            loss = model(**data[i]).loss
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            step += 1
            if step % 50 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f} {time.time() - began:.0f}s", flush=True)


if __name__ == "__main__":
    main()
