"""Pretrain a small BERT with masked language modelling on a token stream."""

import argparse
import math
import time

import torch
import torch.nn.functional as nnf
from torch import nn
from torch.utils.data import DataLoader, Dataset

PAD, CLS, SEP, MASK = 0, 1, 2, 3
NUM_SPECIAL = 4
IGNORE = -100


class TokenBlocks(Dataset):
    """Fixed length blocks cut from a stream of sentences."""

    def __init__(self, num_tokens, block, vocab, seed):
        gen = torch.Generator().manual_seed(seed)
        ranks = torch.arange(1, vocab - NUM_SPECIAL + 1, dtype=torch.float)
        zipf = (1.0 / ranks).div_((1.0 / ranks).sum())
        stream = torch.multinomial(zipf, num_tokens, replacement=True, generator=gen) + NUM_SPECIAL
        # every second token depends on the one before, so there is something to learn
        stream[1::2] = (stream[::2] * 7 + 13) % (vocab - NUM_SPECIAL) + NUM_SPECIAL
        body = block - 2
        usable = (num_tokens // body) * body
        blocks = stream[:usable].view(-1, body)
        cls = torch.full((len(blocks), 1), CLS)
        sep = torch.full((len(blocks), 1), SEP)
        self.blocks = torch.cat([cls, blocks, sep], dim=1)

    def __len__(self):
        return len(self.blocks)

    def __getitem__(self, index):
        return self.blocks[index]


class EncoderLayer(nn.Module):
    """Pre-norm transformer layer."""

    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        """Attend over all positions."""
        batch, length, dim = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = nnf.scaled_dot_product_attention(q, k, v)
        x = x + self.drop(self.proj(y.transpose(1, 2).reshape(batch, length, dim)))
        return x + self.drop(self.mlp(self.norm2(x)))


class Bert(nn.Module):
    """Encoder with a tied masked language modelling head."""

    def __init__(self, vocab, block, dim, layers, heads, dropout):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.pos = nn.Parameter(torch.zeros(1, block, dim))
        self.layers = nn.ModuleList(EncoderLayer(dim, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab)
        nn.init.normal_(self.tok.weight, std=0.02)
        self.head.weight = self.tok.weight

    def forward(self, ids, labels):
        """Return the loss over the masked positions."""
        x = self.tok(ids) + self.pos
        for layer in self.layers:
            x = layer(x)
        chosen = labels != IGNORE
        logits = self.head(self.norm(x[chosen]))
        return nnf.cross_entropy(logits, labels[chosen])


def mask_tokens(ids, vocab, mlm_prob):
    """Apply the 80/10/10 rule of BERT and return inputs with their labels."""
    inputs = ids.clone()
    labels = torch.full_like(ids, IGNORE)
    batch, length = ids.shape
    for i in range(batch):
        for j in range(length):
            token = ids[i, j]
            if token in (PAD, CLS, SEP):
                continue
            if torch.rand(1).item() >= mlm_prob:
                continue
            labels[i, j] = token
            dice = torch.rand(1).item()
            if dice < 0.8:
                inputs[i, j] = MASK
            elif dice < 0.9:
                inputs[i, j] = torch.randint(NUM_SPECIAL, vocab, (1,)).item()
    return inputs, labels


def lr_at(step, args):
    """Linear warmup, cosine decay."""
    if step < args.warmup:
        return (step + 1) / args.warmup
    progress = (step - args.warmup) / max(1, args.steps - args.warmup)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


def parse_args():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vocab", type=int, default=2000)
    parser.add_argument("--block", type=int, default=128)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=6e-4)
    parser.add_argument("--mlm-prob", type=float, default=0.15)
    parser.add_argument("--warmup", type=int, default=200)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--log-every", type=int, default=50)
    parser.add_argument("--seed", type=int, default=17)
    return parser.parse_args()


def main():
    """Train."""
    args = parse_args()
    torch.manual_seed(args.seed)
    data = TokenBlocks(2_000_000, args.block, args.vocab, args.seed)
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = Bert(args.vocab, args.block, args.dim, args.layers, args.heads, args.dropout)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.98), weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: lr_at(step, args))

    step, start = 0, time.time()
    while step < args.steps:
        for ids in loader:
            inputs, labels = mask_tokens(ids, args.vocab, args.mlm_prob)
            loss = model(inputs, labels)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            step += 1
            if step % args.log_every == 0:
                rate = step / (time.time() - start)
                print(
                    f"step {step} loss {loss.item():.4f} lr {scheduler.get_last_lr()[0]:.2e} {rate:.1f} it/s",
                    flush=True,
                )
            if step >= args.steps:
                break


if __name__ == "__main__":
    main()
