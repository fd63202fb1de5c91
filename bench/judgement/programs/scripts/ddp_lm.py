"""A language model of words on two ranks: torchrun --nproc-per-node 2 ddp_lm.py"""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

VOCAB, DIM, SEQ, MICRO, ACCUMULATE = 12000, 192, 16, 2, 6


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, 6, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, -1))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, DIM), nn.Embedding(SEQ, DIM)
        self.blocks = nn.Sequential(Block(), Block())
        self.norm, self.head = nn.LayerNorm(DIM), nn.Linear(DIM, VOCAB, bias=False)
        self.head.weight = self.tok.weight

    def forward(self, ids):
        x = self.tok(ids) + self.pos.weight[: ids.size(1)]
        return self.head(self.norm(self.blocks(x)))


def batches(rank):
    generator = torch.Generator().manual_seed(rank)
    corpus = torch.randint(0, VOCAB, (200_000,), generator=generator)
    while True:
        starts = torch.randint(0, len(corpus) - SEQ - 1, (MICRO,), generator=generator)
        window = torch.stack([corpus[s : s + SEQ + 1] for s in starts.tolist()])
        yield window[:, :-1], window[:, 1:]


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = DistributedDataParallel(Model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    data = batches(rank)
    for step in range(100_000):
        total = 0.0
        for _ in range(ACCUMULATE):
            x, y = next(data)
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / ACCUMULATE
            loss.backward()
            total += loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {total:.3f}", flush=True)


if __name__ == "__main__":
    main()
