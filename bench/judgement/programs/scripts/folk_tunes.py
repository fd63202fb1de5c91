"""Language model of folk tunes in letters: GRU with state carried between pieces of text."""
import argparse
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

NOTES = list("ABCDEFGabcdefg")
LENGTHS = ["", "2", "/2", "3"]


def tunes(count, seed):
    rng = random.Random(seed)
    out = []
    for _ in range(count):
        place, bars = rng.randrange(len(NOTES)), []
        for _ in range(8):
            bar = []
            for _ in range(4):
                place = (place + rng.choice([-2, -1, 1, 2])) % len(NOTES)
                bar.append(NOTES[place] + rng.choice(LENGTHS))
            bars.append("".join(bar))
        out.append("|".join(bars) + "|\n")
    return "".join(out)


class TuneModel(nn.Module):
    def __init__(self, symbols, dim=64, hidden=256):
        super().__init__()
        self.embed = nn.Embedding(symbols, dim)
        self.rnn = nn.GRU(dim, hidden, num_layers=2, dropout=0.1)
        self.out = nn.Linear(hidden, symbols)

    def forward(self, ids, state):
        states, state = self.rnn(self.embed(ids), state)
        return self.out(states), state


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, default=24)
    parser.add_argument("--length", type=int, default=48)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--epochs", type=int, default=100_000)
    args = parser.parse_args()
    torch.manual_seed(12)
    torch.set_num_threads(1)
    text = tunes(4000, 12)
    symbols = {c: i for i, c in enumerate(sorted(set(text)))}
    ids = torch.tensor([symbols[c] for c in text])
    rows = len(ids) // args.streams
    streams = ids[:rows * args.streams].view(args.streams, rows).t().contiguous()
    model = TuneModel(len(symbols))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=True)
    step, began = 0, time.time()
    for epoch in range(args.epochs):
        state = None
        for at in range(0, rows - args.length - 1, args.length):
            logits, state = model(streams[at:at + args.length], state)
            state = state.detach()
            loss = F.cross_entropy(logits.flatten(0, 1), streams[at + 1:at + args.length + 1].flatten())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
            if step % 50 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f} {time.time() - began:.0f}s", flush=True)


if __name__ == "__main__":
    main()
