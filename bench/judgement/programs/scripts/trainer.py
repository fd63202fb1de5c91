"""A trainer with a configuration and callbacks, for a small masked-word model."""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset


@dataclass
class Arguments:
    vocab: int = 3000
    dim: int = 160
    layers: int = 5
    heads: int = 5
    seq: int = 64
    batch: int = 4
    lr: float = 5e-4
    max_steps: int = 1_000_000
    logging_steps: int = 50
    gradient_checkpointing: bool = True


class MaskedWords(Dataset):
    def __init__(self, args, n=5000):
        self.ids = torch.randint(5, args.vocab, (n, args.seq))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        ids = self.ids[i].clone()
        masked = torch.rand(ids.shape) < 0.15
        labels = torch.where(masked, ids, -100)
        ids[masked] = 1
        return ids, labels


class Layer(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.heads = args.heads
        self.norm1, self.norm2 = nn.LayerNorm(args.dim), nn.LayerNorm(args.dim)
        self.qkv, self.out = nn.Linear(args.dim, 3 * args.dim), nn.Linear(args.dim, args.dim)
        self.up, self.down = nn.Linear(args.dim, 4 * args.dim), nn.Linear(4 * args.dim, args.dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.args = args
        self.tok, self.pos = nn.Embedding(args.vocab, args.dim), nn.Embedding(args.seq, args.dim)
        self.layers = nn.ModuleList(Layer(args) for _ in range(args.layers))
        self.head = nn.Linear(args.dim, args.vocab)

    def forward(self, ids):
        x = self.tok(ids) + self.pos.weight
        for layer in self.layers:
            if self.args.gradient_checkpointing and self.training:
                x = checkpoint(layer, x, use_reentrant=False)
            else:
                x = layer(x)
        return x


class Trainer:
    def __init__(self, model, args, dataset):
        self.model, self.args, self.step = model, args, 0
        self.loader = DataLoader(dataset, args.batch, shuffle=True, drop_last=True)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)

    def training_step(self, ids, labels):
        hidden, keep = self.model(ids), labels != -100
        loss = F.cross_entropy(self.model.head(hidden[keep]), labels[keep])
        loss.backward()
        return loss.detach()

    def train(self):
        self.model.train()
        while self.step < self.args.max_steps:
            for ids, labels in self.loader:
                loss = self.training_step(ids, labels)
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.step += 1
                if self.step % self.args.logging_steps == 0:
                    print(f"step {self.step} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    torch.manual_seed(0)
    arguments = Arguments()
    Trainer(Model(arguments), arguments, MaskedWords(arguments)).train()
