"""A compiled text encoder over batches of changing length."""

import random

import torch
import torch._dynamo
from torch import nn

torch._dynamo.config.recompile_limit = 10000
torch._dynamo.config.accumulated_recompile_limit = 10000


class Encoder(nn.Module):
    def __init__(self, vocab=2000, dim=64):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 5)

    def forward(self, ids):
        h = self.emb(ids)
        h = self.norm(h + self.down(torch.relu(self.up(h))))
        return self.head(h.mean(1))


def batches(n, size):
    rng = random.Random(0)
    for _ in range(n):
        length = rng.randrange(16, 400)
        yield torch.randint(2000, (size, length)), torch.randint(5, (size,))


def main():
    torch.manual_seed(0)
    model = Encoder()
    forward = torch.compile(model, dynamic=False, backend="aot_eager")
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, (ids, labels) in enumerate(batches(100000, 16)):
        loss = nn.functional.cross_entropy(forward(ids), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0:
            print(step, loss.item(), flush=True)


if __name__ == "__main__":
    main()
