"""Adapts a small pretrained encoder to product reviews with low-rank adapters."""
import argparse
import math
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

GOOD, BAD = ["great", "solid", "love", "sharp", "quick", "quiet"], ["broken", "slow", "poor", "loud", "weak", "late"]
NEUTRAL = [f"word{i}" for i in range(1500)]


def reviews(count, length, seed):
    rng = random.Random(seed)
    vocabulary = {w: i for i, w in enumerate(GOOD + BAD + NEUTRAL)}
    rows, labels = [], []
    for _ in range(count):
        label = rng.randint(0, 1)
        words = [rng.choice(NEUTRAL) for _ in range(length)]
        for _ in range(4):
            words[rng.randrange(length)] = rng.choice(GOOD if label else BAD)
        rows.append([vocabulary[w] for w in words])
        labels.append(label)
    return torch.tensor(rows), torch.tensor(labels), len(vocabulary)


class AdaptedLinear(nn.Module):
    def __init__(self, inp, out, rank=8, alpha=16):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out, inp), requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(out), requires_grad=False)
        self.down, self.up = nn.Parameter(torch.empty(rank, inp)), nn.Parameter(torch.zeros(out, rank))
        self.scaling = alpha / rank
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))

    def forward(self, x):
        weight = self.weight + self.scaling * (self.up @ self.down)
        return F.linear(x, weight, self.bias)


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = AdaptedLinear(dim, 3 * dim), AdaptedLinear(dim, dim)
        self.fc1, self.fc2 = AdaptedLinear(dim, 4 * dim), AdaptedLinear(4 * dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Encoder(nn.Module):
    def __init__(self, vocabulary, length, dim=288, heads=6, layers=3):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, dim), nn.Embedding(length, dim)
        self.token.requires_grad_(False)
        self.position.requires_grad_(False)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, 2)

    def forward(self, ids):
        x = self.token(ids) + self.position.weight[:ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x.mean(1)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--max-steps", type=int, default=500_000)
    args = parser.parse_args()
    torch.manual_seed(17)
    torch.set_num_threads(1)
    ids, labels, vocabulary = reviews(3000, args.length, 17)
    model = Encoder(vocabulary, args.length)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=args.lr, fused=True)
    began = time.time()
    for step in range(1, args.max_steps + 1):
        rows = torch.randint(0, len(ids), (args.batch_size,))
        loss = F.cross_entropy(model(ids[rows]), labels[rows])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f} {time.time() - began:.0f}s", flush=True)


if __name__ == "__main__":
    main()
