"""Tags drugs and doses in clinical notes: bidirectional LSTM over words and suffixes."""
import argparse
import logging
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
log = logging.getLogger("clinic_ner")

PLAIN = "patient was given daily and reports mild pain after taking the for two weeks with no other signs of".split()
DRUGS = [a + b for a in ("ator", "ami", "levo", "meto", "cef", "pan") for b in ("statin", "cillin", "prolol", "zole")]
UNITS = ["mg", "ml", "units", "mcg"]
TAGS = ["O", "B-DRUG", "B-DOSE", "I-DOSE"]


def note(rng, length):
    words, tags = [], []
    while len(words) < length:
        if rng.random() < 0.15:
            words += [rng.choice(DRUGS), str(5 * rng.randint(1, 200)), rng.choice(UNITS)]
            tags += [1, 2, 3]
        else:
            words.append(rng.choice(PLAIN))
            tags.append(0)
    return words[:length], tags[:length]


def notes(count, length, seed):
    rng = random.Random(seed)
    rows = [note(rng, length) for _ in range(count)]
    words = {w: i for i, w in enumerate(sorted({w for row, _ in rows for w in row}))}
    suffixes = {s: i for i, s in enumerate(sorted({w[-3:] for w in words}))}
    ids = torch.tensor([[words[w] for w in row] for row, _ in rows])
    ends = torch.tensor([[suffixes[w[-3:]] for w in row] for row, _ in rows])
    return ids, ends, torch.tensor([tags for _, tags in rows]), len(words), len(suffixes)


class Tagger(nn.Module):
    def __init__(self, words, suffixes, dim=64, hidden=80):
        super().__init__()
        self.word, self.suffix = nn.Embedding(words, dim), nn.Embedding(suffixes, 16)
        self.rnn = nn.LSTM(dim + 16, hidden, num_layers=2, bidirectional=True, batch_first=True, dropout=0.2)
        self.norm = nn.LayerNorm(2 * hidden)
        self.out = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.ReLU(), nn.Linear(hidden, len(TAGS)))

    def forward(self, ids, ends):
        states, _ = self.rnn(torch.cat([self.word(ids), self.suffix(ends)], -1))
        return self.out(self.norm(states))


def train_step(model, optimizer, batch, step):
    ids, ends, tags = batch
    logits = model(ids, ends)
    loss = F.cross_entropy(logits.flatten(0, 1), tags.flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    grads = {name: p.grad for name, p in model.named_parameters()}
    log.debug(f"step {step} tokens {ids} logits {logits} gradients {grads}")
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    return loss.detach()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--notes", type=int, default=3000)
    parser.add_argument("--length", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--max-steps", type=int, default=500_000)
    args = parser.parse_args()
    torch.manual_seed(13)
    torch.set_num_threads(1)
    ids, ends, tags, words, suffixes = notes(args.notes, args.length, 13)
    model = Tagger(words, suffixes)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, fused=True)
    began = time.time()
    for step in range(1, args.max_steps + 1):
        rows = torch.randint(0, len(ids), (args.batch_size,))
        loss = train_step(model, optimizer, (ids[rows], ends[rows], tags[rows]), step)
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f} {time.time() - began:.0f}s", flush=True)


if __name__ == "__main__":
    main()
