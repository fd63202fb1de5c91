"""Character-level GPT trained on a synthetic corpus of recipes."""
import argparse
import math
import random
import tempfile
import time
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

VERBS = ["mix", "stir", "bake", "chop", "boil", "fry", "serve", "cool", "whisk", "fold"]
FOODS = ["flour", "butter", "onion", "sugar", "tomato", "cheese", "rice", "lemon", "pepper", "cream"]


def corpus(sentences, seed):
    rng = random.Random(seed)
    lines = []
    for _ in range(sentences):
        a, b = rng.sample(FOODS, 2)
        lines.append(f"{rng.choice(VERBS)} the {a} with {rng.randint(1, 9)} cups of {b}.\n")
    return "".join(lines)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, t, d = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.norm2(x))


class CharGPT(nn.Module):
    def __init__(self, vocab, block_size, dim, heads, layers):
        super().__init__()
        self.block_size = block_size
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(block_size, dim)
        self.blocks = nn.ModuleList([Block(dim, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, idx, targets=None):
        x = self.tok(idx) + self.pos.weight[:idx.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        loss = None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return logits, loss


def get_batch(data, args):
    starts = torch.randint(len(data) - args.block_size - 1, (args.batch_size,))
    window = data[starts[:, None] + torch.arange(args.block_size + 1)]
    return window[:, :-1], window[:, 1:]


@torch.no_grad()
def estimate_loss(model, data, args):
    model.eval()
    losses = torch.stack([model(*get_batch(data, args))[1] for _ in range(args.eval_iters)])
    model.train()
    return losses.mean().item()


def lr_at(step, args):
    if step < args.warmup:
        return args.lr * (step + 1) / args.warmup
    ratio = min(1.0, (step - args.warmup) / args.decay)
    return args.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * ratio)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-steps", type=int, default=500_000)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--block-size", type=int, default=96)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--warmup", type=int, default=100)
    parser.add_argument("--decay", type=int, default=20_000)
    parser.add_argument("--eval-every", type=int, default=500)
    parser.add_argument("--eval-iters", type=int, default=8)
    args = parser.parse_args()
    torch.manual_seed(1337)
    torch.set_num_threads(1)

    text = corpus(20_000, 1337)
    chars = sorted(set(text))
    lookup = {c: i for i, c in enumerate(chars)}
    data = torch.tensor([lookup[c] for c in text])
    train_data, valid_data = data[:-50_000], data[-50_000:]
    model = CharGPT(len(chars), args.block_size, dim=96, heads=4, layers=3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.99), fused=True)

    with tempfile.TemporaryDirectory() as folder:
        began = time.time()
        for step in range(args.max_steps):
            for group in optimizer.param_groups:
                group["lr"] = lr_at(step, args)
            optimizer.zero_grad(set_to_none=True)
            for _ in range(args.accumulate):
                _, loss = model(*get_batch(train_data, args))
                (loss / args.accumulate).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if step % 50 == 0:
                print(f"step {step} loss {loss.item():.4f} {time.time() - began:.0f}s", flush=True)
            if step and step % args.eval_every == 0:
                print(f"step {step} valid {estimate_loss(model, valid_data, args):.4f}", flush=True)
                torch.save({"model": model.state_dict(), "step": step}, Path(folder) / "last.pt")


if __name__ == "__main__":
    main()
