"""A language model without a planted mistake."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln1, self.ln2, self.heads = nn.LayerNorm(dim), nn.LayerNorm(dim), heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, d))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, vocab=512, dim=192, layers=3, heads=6, block=128):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(block, dim)
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(layers)])
        self.head = nn.Linear(dim, vocab)
        self.register_buffer("places", torch.arange(block))

    def forward(self, idx):
        return self.head(self.blocks(self.tok(idx) + self.pos(self.places[: idx.size(1)])))


if __name__ == "__main__":
    torch.manual_seed(0)
    data = torch.randint(512, (200_000,))
    model = GPT()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    windows = torch.arange(129)
    for step in range(100000):
        at = torch.randint(len(data) - 129, (16, 1))
        batch = data[at + windows]
        logits = model(batch[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 100 == 0:
            print(step, loss.item(), flush=True)
