"""Masked language modelling: pre-norm encoder, logits of the masked positions only."""
import time

import torch
from torch import nn, Tensor
from torch.nn import functional as F

VOCAB, LENGTH, BATCH, MASKED = 3000, 96, 8, 14
MASK_ID = VOCAB - 1


class Block(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x: Tensor) -> Tensor:
        b, n, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(y.transpose(1, 2).reshape(b, n, d))
        return x + self.mlp(self.n2(x))


class Encoder(nn.Module):
    def __init__(self, dim: int = 192, depth: int = 4, heads: int = 6) -> None:
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim)
        self.pos = nn.Parameter(torch.randn(LENGTH, dim) * 0.02)
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.bias = nn.Parameter(torch.zeros(VOCAB))

    def forward(self, ids: Tensor, where: Tensor) -> Tensor:
        h = self.norm(self.blocks(self.tok(ids) + self.pos))
        picked = h.gather(1, where.unsqueeze(-1).expand(-1, -1, h.shape[-1]))
        return F.linear(picked, self.tok.weight, self.bias)


def mask(ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    where = torch.rand(ids.shape).topk(MASKED, dim=1).indices
    labels = ids.gather(1, where)
    return ids.scatter(1, where, MASK_ID), where, labels


def param_groups(model: nn.Module) -> list[dict]:
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    return [{"params": decay, "weight_decay": 0.01}, {"params": rest, "weight_decay": 0.0}]


def main() -> None:
    torch.manual_seed(0)
    text = torch.randint(0, VOCAB - 1, (5000, LENGTH))
    text[:, 1::2] = (text[:, ::2] * 7 + 1) % (VOCAB - 1)
    model = Encoder()
    opt = torch.optim.AdamW(param_groups(model), lr=5e-4, fused=True)
    warm = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 500))
    total = torch.zeros(())
    begin = time.perf_counter()
    for step in range(1, 50_000_000):
        ids, where, labels = mask(text[torch.randint(0, len(text), (BATCH,))])
        loss = F.cross_entropy(model(ids, where).flatten(0, 1), labels.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        opt.step()
        opt.zero_grad(set_to_none=True)
        warm.step()
        total += loss.detach()
        if step % 100 == 0:
            speed = step * BATCH * LENGTH / (time.perf_counter() - begin)
            print(f"{step} loss {total.item() / 100:.3f} {speed:.0f} tokens/s", flush=True)
            total.zero_()


if __name__ == "__main__":
    main()
