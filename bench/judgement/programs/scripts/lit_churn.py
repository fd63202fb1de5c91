"""Customer churn with a feature tokenizer transformer, trained by Lightning."""

import argparse

import lightning
import torch
import torch.nn.functional as nnf
from torch import nn
from torch.utils.data import TensorDataset

CARDINALITIES = (4, 7, 12, 30, 52)
NUM_CONTINUOUS = 11


def customers(count, seed):
    """Categorical columns, continuous columns, and whether the customer left."""
    gen = torch.Generator().manual_seed(seed)
    categorical = torch.stack([torch.randint(0, card, (count,), generator=gen) for card in CARDINALITIES], dim=1)
    continuous = torch.randn(count, NUM_CONTINUOUS, generator=gen)
    logit = 0.8 * continuous[:, 0] - 0.6 * continuous[:, 1] * continuous[:, 2] + 0.5 * continuous[:, 3].abs()
    logit += 0.7 * (categorical[:, 0] == 2) - 0.9 * (categorical[:, 3] % 5 == 0) - 0.8
    left = (torch.rand(count, generator=gen) < logit.sigmoid()).float()
    return TensorDataset(categorical, continuous, left)


class FeatureTokenizer(nn.Module):
    """One token per column, plus a class token."""

    def __init__(self, dim):
        super().__init__()
        offsets = torch.tensor((0, *CARDINALITIES[:-1])).cumsum(0)
        self.register_buffer("offsets", offsets)
        self.embedding = nn.Embedding(sum(CARDINALITIES), dim)
        self.weight = nn.Parameter(torch.randn(NUM_CONTINUOUS, dim) * 0.1)
        self.bias = nn.Parameter(torch.zeros(NUM_CONTINUOUS, dim))
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))

    def forward(self, categorical, continuous):
        """Tokens of a batch of rows."""
        words = self.embedding(categorical + self.offsets)
        numbers = continuous.unsqueeze(-1) * self.weight + self.bias
        return torch.cat([self.cls.expand(len(words), -1, -1), words, numbers], dim=1)


class Block(nn.Module):
    """Transformer block with a gated feed forward."""

    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(2 * dim, dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        """Attention over columns."""
        rows, tokens, dim = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(rows, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = nnf.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(rows, tokens, dim)
        x = x + self.drop(self.proj(mixed))
        value, gate = self.up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.drop(self.down(value * nnf.relu(gate)))


class ChurnModule(lightning.LightningModule):
    """Model, loss and optimizer."""

    def __init__(self, dim=32, layers=3, heads=4, dropout=0.1, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.tokenizer = FeatureTokenizer(dim)
        self.blocks = nn.Sequential(*(Block(dim, heads, dropout) for _ in range(layers)))
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, categorical, continuous):
        """Logit of churn."""
        x = self.blocks(self.tokenizer(categorical, continuous))
        return self.head(x[:, 0]).squeeze(-1)

    def training_step(self, batch, batch_idx):
        """Loss of a batch."""
        categorical, continuous, left = batch
        loss = nnf.binary_cross_entropy_with_logits(self(categorical, continuous), left)
        self.log("train_loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        """Loss and accuracy on held out customers."""
        categorical, continuous, left = batch
        logit = self(categorical, continuous)
        self.log("val_loss", nnf.binary_cross_entropy_with_logits(logit, left))
        self.log("val_acc", ((logit > 0) == left.bool()).float().mean())

    def configure_optimizers(self):
        """AdamW without decay on norms, biases and embeddings."""
        decay = [p for p in self.parameters() if p.ndim == 2]
        plain = [p for p in self.parameters() if p.ndim != 2]
        groups = [{"params": decay, "weight_decay": 1e-2}, {"params": plain, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=self.hparams.lr)


class BatchedLoader:
    """Whole batches by index, without a call per row."""

    def __init__(self, dataset, batch_size, shuffle):
        self.tensors = dataset.tensors
        self.batch_size = batch_size
        self.shuffle = shuffle

    def __len__(self):
        return len(self.tensors[0]) // self.batch_size

    def __iter__(self):
        count = len(self.tensors[0])
        order = torch.randperm(count) if self.shuffle else torch.arange(count)
        for index in order[: len(self) * self.batch_size].view(-1, self.batch_size):
            yield tuple(tensor[index] for tensor in self.tensors)


def main():
    """Fit."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=80)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()
    lightning.seed_everything(1)
    train_loader = BatchedLoader(customers(25_600, seed=1), args.batch_size, shuffle=True)
    val_loader = BatchedLoader(customers(2_560, seed=2), args.batch_size, shuffle=False)
    trainer = lightning.Trainer(
        max_epochs=args.epochs,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        gradient_clip_val=1.0,
        detect_anomaly=True,
        check_val_every_n_epoch=5,
    )
    trainer.fit(ChurnModule(lr=args.lr), train_loader, val_loader)
    print({name: round(value.item(), 4) for name, value in trainer.callback_metrics.items()})


if __name__ == "__main__":
    main()
