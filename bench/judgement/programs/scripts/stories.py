"""A small language model of stories, in the style of nanoGPT."""
import math

import torch
import torch.nn.functional as F
from torch import nn

VOCAB, DIM, HEADS, LAYERS, SEQ, BATCH = 512, 128, 4, 4, 64, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.proj = nn.Linear(DIM, 3 * DIM, bias=False), nn.Linear(DIM, DIM, bias=False)
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, DIM))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, DIM), nn.Embedding(SEQ, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(DIM), nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, ids, targets):
        x = self.tok(ids) + self.pos.weight
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def learning_rate(step, warmup=100, total=20_000, top=1e-3):
    if step < warmup:
        return top * (step + 1) / warmup
    return top * 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warmup) / total)))


def get_batch(data):
    starts = torch.randint(0, len(data) - SEQ - 1, (BATCH, 1))
    window = data[starts + torch.arange(SEQ + 1)]
    return window[:, :-1], window[:, 1:]


def main():
    torch.manual_seed(0)
    train, valid = torch.randint(0, VOCAB, (300_000,)), torch.randint(0, VOCAB, (20_000,))
    model = GPT()
    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), fused=True)
    for step in range(1_000_000):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        loss = model(*get_batch(train))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 500 == 499:
            with torch.no_grad():
                value = sum(model(*get_batch(valid)).item() for _ in range(5)) / 5
            print(f"step {step} loss {loss.item():.3f} validation {value:.3f}", flush=True)


if __name__ == "__main__":
    main()
