"""Translate spelled out dates and amounts to a normal form with an attentional encoder-decoder."""

import argparse
import random
import time

import torch
import torch.nn.functional as nnf
from torch import nn
from torch.nn.utils.rnn import pad_sequence

PAD, BOS, EOS = 0, 1, 2
CHARS = "abcdefghijklmnopqrstuvwxyz0123456789 .,-/$€"
INDEX = {char: number for number, char in enumerate(CHARS, 3)}
MONTH_NAMES = "january february march april may june july august september october november december"
TENS_NAMES = "twenty thirty forty fifty sixty seventy eighty ninety"
ONES_NAMES = "one two three four five six seven eight nine"
MONTHS, TENS, ONES = MONTH_NAMES.split(), TENS_NAMES.split(), ONES_NAMES.split()
PHRASES = ("due on {}", "the invoice of {} was paid", "{}", "we met on {}, as you remember", "from {} onward")


def encode(text):
    """Characters as numbers, with an end."""
    return torch.tensor([INDEX[char] for char in text] + [EOS])


def make_example(rng):
    """One pair of source and target."""
    if rng.random() < 0.6:
        day, month, year = rng.randint(1, 28), rng.randint(1, 12), rng.randint(1950, 2035)
        said = rng.choice((f"{day} {MONTHS[month - 1]} {year}", f"{MONTHS[month - 1]} {day}, {year}"))
        written = f"{year}-{month:02d}-{day:02d}"
    else:
        tens, ones = rng.randrange(8), rng.randrange(9)
        said = f"{TENS[tens]}-{ONES[ones]} {rng.choice(('dollars', 'euros'))}"
        written = ("$" if said.endswith("dollars") else "€") + f"{tens + 2}{ones + 1}.00"
    return encode(rng.choice(PHRASES).format(said)), encode(written)


class Batches:
    """Batches of similar lengths, in random order."""

    def __init__(self, examples, batch_size, seed=0):
        self.rng = random.Random(seed)
        self.examples = sorted(examples, key=lambda pair: len(pair[0]))
        self.batch_size = batch_size

    def __iter__(self):
        starts = list(range(0, len(self.examples) - self.batch_size + 1, self.batch_size))
        self.rng.shuffle(starts)
        for start in starts:
            source, target = zip(*self.examples[start : start + self.batch_size], strict=True)
            yield (
                pad_sequence(source, batch_first=True, padding_value=PAD),
                pad_sequence(target, batch_first=True, padding_value=PAD),
            )


class Translator(nn.Module):
    """GRU encoder in both directions, GRU decoder with teacher forcing, dot product attention on top."""

    def __init__(self, vocab, dim, hidden, dropout=0.1):
        super().__init__()
        self.embedding = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.encoder = nn.GRU(dim, hidden // 2, batch_first=True, bidirectional=True)
        self.decoder = nn.GRU(dim, hidden, batch_first=True)
        self.bridge = nn.Linear(hidden, hidden)
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.combine = nn.Linear(2 * hidden, hidden)
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(hidden, vocab)

    def encode(self, source):
        """States of the source and the first state of the decoder."""
        states, last = self.encoder(self.dropout(self.embedding(source)))
        return states, torch.tanh(self.bridge(torch.cat([last[0], last[1]], dim=1))).unsqueeze(0)

    def decode(self, previous, states, mask, hidden):
        """Logits after each of the previous characters."""
        out, hidden = self.decoder(self.dropout(self.embedding(previous)), hidden)
        scores = self.query(out) @ states.transpose(1, 2)
        weights = scores.masked_fill(mask.unsqueeze(1), float("-inf")).softmax(-1)
        mixed = torch.tanh(self.combine(torch.cat([out, weights @ states], dim=-1)))
        return self.out(self.dropout(mixed)), hidden

    def forward(self, source, target):
        """Loss under teacher forcing."""
        states, hidden = self.encode(source)
        begin = torch.full_like(target[:, :1], BOS)
        logits, _ = self.decode(torch.cat([begin, target[:, :-1]], dim=1), states, source == PAD, hidden)
        return nnf.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD)


@torch.no_grad()
def greedy_accuracy(model, source, target):
    """Share of the targets written exactly right."""
    model.eval()
    states, hidden = model.encode(source)
    mask = source == PAD
    symbol = torch.full((len(source), 1), BOS)
    written = []
    for _ in range(target.shape[1]):
        logits, hidden = model.decode(symbol, states, mask, hidden)
        symbol = logits.argmax(-1)
        written.append(symbol)
    model.train()
    return ((torch.cat(written, dim=1) == target) | (target == PAD)).all(1).float().mean().item()


def main():
    """Train and test once per epoch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=25_600)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()

    torch.manual_seed(0)
    rng = random.Random(0)
    train = Batches([make_example(rng) for _ in range(args.examples)], args.batch_size)
    test_source, test_target = next(iter(Batches([make_example(rng) for _ in range(200)], 200)))
    model = Translator(len(CHARS) + 3, args.dim, args.hidden)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        begun, losses = time.time(), []
        for source, target in train:
            loss = model(source, target)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.detach())
        pace = 1000 * (time.time() - begun) / len(losses)
        accuracy = greedy_accuracy(model, test_source, test_target)
        print(
            f"epoch {epoch} loss {torch.stack(losses).mean().item():.4f} exact {accuracy:.3f} {pace:.0f} ms/step",
            flush=True,
        )


if __name__ == "__main__":
    main()
