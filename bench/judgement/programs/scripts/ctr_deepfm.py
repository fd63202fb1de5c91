"""Click prediction with DeepFM on hashed categorical features."""

import time

import numpy as np
import torch
import torch.nn.functional as nnf
from sklearn.metrics import roc_auc_score
from torch import nn

FIELDS = 20
BUCKETS = 2_000
DENSE = 8
DIM = 12
BATCH = 1024
ROWS = 1024 * 300
EPOCHS = 30


def make_log(rows, rng):
    """A log of impressions: hashed ids per field, counters, and clicks (about one in five)."""
    ids = np.empty((rows, FIELDS), dtype=np.int64)
    for field in range(FIELDS):
        cardinality = int(rng.integers(10, BUCKETS))
        ids[:, field] = (cardinality * rng.random(rows) ** 3).astype(np.int64) + field * BUCKETS
    dense = np.log1p(rng.exponential(5.0, (rows, DENSE))).astype(np.float32)
    effect = rng.normal(0, 0.6, FIELDS * BUCKETS)
    latent = rng.normal(0, 0.5, (FIELDS * BUCKETS, 4))
    pair = (latent[ids[:, 0]] * latent[ids[:, 1]]).sum(1) + (latent[ids[:, 2]] * latent[ids[:, 5]]).sum(1)
    logit = effect[ids].sum(1) / 2 + 2 * pair + 0.4 * (dense[:, 0] - dense[:, 1]) - 1.7
    clicks = (rng.random(rows) < 1 / (1 + np.exp(-logit))).astype(np.float32)
    return torch.from_numpy(ids), torch.from_numpy(dense), torch.from_numpy(clicks)


class DeepFM(nn.Module):
    """Factorization machine and a deep part over shared embeddings."""

    def __init__(self, hidden=(256, 128), dropout=0.1):
        super().__init__()
        self.linear = nn.EmbeddingBag(FIELDS * BUCKETS, 1, mode="sum")
        self.embedding = nn.Embedding(FIELDS * BUCKETS, DIM)
        self.dense_linear = nn.Linear(DENSE, 1)
        nn.init.normal_(self.embedding.weight, std=0.05)
        nn.init.zeros_(self.linear.weight)
        layers, inputs = [], FIELDS * DIM + DENSE
        for outputs in hidden:
            layers += [nn.Linear(inputs, outputs), nn.ReLU(inplace=True), nn.Dropout(dropout)]
            inputs = outputs
        self.deep = nn.Sequential(*layers, nn.Linear(inputs, 1))

    def forward(self, ids, dense):
        """Logit of a click."""
        vectors = self.embedding(ids)
        pairwise = 0.5 * (vectors.sum(1).square() - vectors.square().sum(1)).sum(1, keepdim=True)
        deep = self.deep(torch.cat([vectors.flatten(1), dense], dim=1))
        return (self.linear(ids) + self.dense_linear(dense) + pairwise + deep).squeeze(1)


class RunningAUC:
    """Area under the curve of everything seen in the epoch."""

    def __init__(self):
        self.reset()

    def reset(self):
        """Begin an epoch."""
        self.scores = []
        self.clicks = []
        self.value = 0.5

    def update(self, logits, clicks):
        """Take in a batch."""
        self.scores.append(logits.detach().numpy())
        self.clicks.append(clicks.numpy())

    def compute(self):
        """AUC so far."""
        clicks = np.concatenate(self.clicks)
        if 0 < clicks.sum() < len(clicks):
            self.value = roc_auc_score(clicks, np.concatenate(self.scores))
        return self.value


def run_epoch(model, optimizer, data, auc, epoch):
    """One pass over the log."""
    ids, dense, clicks = data
    auc.reset()
    begun, smooth = time.time(), None
    order = torch.randperm(len(clicks))
    for step, rows in enumerate(order.split(BATCH), 1):
        target = clicks[rows]
        logits = model(ids[rows], dense[rows])
        loss = nnf.binary_cross_entropy_with_logits(logits, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        auc.update(logits, target)
        smooth = loss.item() if smooth is None else 0.98 * smooth + 0.02 * loss.item()
        current = auc.compute()
        if step % 40 == 0:
            pace = 1000 * (time.time() - begun) / step
            print(f"epoch {epoch} step {step} loss {smooth:.4f} auc {current:.4f} {pace:.0f} ms/step", flush=True)


def main():
    """Train."""
    torch.manual_seed(8)
    data = make_log(ROWS, np.random.default_rng(8))
    print(f"click rate {data[2].mean().item():.3f}")
    model = DeepFM()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    auc = RunningAUC()
    for epoch in range(EPOCHS):
        run_epoch(model, optimizer, data, auc, epoch)
        for group in optimizer.param_groups:
            group["lr"] *= 0.9


if __name__ == "__main__":
    main()
