"""Word-level language model, data parallel.

    python -m torch.distributed.run --nproc-per-node 2 ddp_wordlm.py
"""
import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel


class WordLM(nn.Module):
    def __init__(self, vocab, dim, hidden):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, hidden, batch_first=True)
        self.project = nn.Linear(hidden, dim)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(dim, vocab)
        self.out.weight = self.embed.weight

    def forward(self, tokens):
        states, _ = self.rnn(self.drop(self.embed(tokens)))
        return self.out(self.drop(self.project(states)))


class TokenStream:
    """Random windows over a synthetic corpus; every rank draws its own."""

    def __init__(self, vocab, length, seed):
        self.generator = torch.Generator().manual_seed(seed)
        base = torch.randint(0, vocab, (length,), generator=self.generator)
        # make it a little predictable
        base[1::2] = (base[0::2] * 7 + 3) % vocab
        self.tokens = base

    def draw(self, batch, window):
        starts = torch.randint(0, len(self.tokens) - window - 1, (batch,), generator=self.generator)
        index = starts[:, None] + torch.arange(window + 1)
        chunk = self.tokens[index]
        return chunk[:, :-1], chunk[:, 1:]


def train_step(model, optimizer, stream, args):
    optimizer.zero_grad(set_to_none=True)
    total = torch.zeros(())
    for micro in range(args.accumulate):
        inputs, targets = stream.draw(args.batch, args.window)
        logits = model(inputs)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        (loss / args.accumulate).backward()
        total += loss.detach() / args.accumulate
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return total


def evaluate(model, stream, args, rounds=2):
    model.eval()
    total = torch.zeros(())
    with torch.no_grad():
        for _ in range(rounds):
            inputs, targets = stream.draw(args.batch, args.window)
            logits = model.module(inputs)
            total += F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    dist.all_reduce(total)
    model.train()
    return total.item() / rounds / dist.get_world_size()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--window", type=int, default=8)
    parser.add_argument("--accumulate", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=5000)
    parser.add_argument("--dim", type=int, default=160)
    parser.add_argument("--hidden", type=int, default=256)
    args = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    torch.manual_seed(11)
    model = DistributedDataParallel(WordLM(args.vocab, args.dim, args.hidden))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.steps)
    stream = TokenStream(args.vocab, 200_000, seed=100 + rank)
    held_out = TokenStream(args.vocab, 20_000, seed=900 + rank)

    for step in range(1, args.steps + 1):
        loss = train_step(model, optimizer, stream, args)
        schedule.step()
        if step % 50 == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.3f} lr {schedule.get_last_lr()[0]:.4f}", flush=True)
        if step % 400 == 0:
            valid = evaluate(model, held_out, args)
            if rank == 0:
                print(f"step {step} valid {valid:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
