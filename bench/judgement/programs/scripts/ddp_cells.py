"""Variational autoencoder for single cell counts, data parallel: torchrun --nproc_per_node 2 ddp_cells.py."""

import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.nn.functional as nnf
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def simulate_counts(cells, genes, programs=12, seed=0):
    """Counts of molecules: every cell mixes a few gene programs and has a depth of its own."""
    gen = torch.Generator().manual_seed(seed)
    loadings = torch.rand(programs, genes, generator=gen).pow(8)
    loadings /= loadings.sum(1, keepdim=True)
    usage = torch.rand(cells, programs, generator=gen).pow(4)
    usage /= usage.sum(1, keepdim=True)
    depth = torch.exp(0.4 * torch.randn(cells, 1, generator=gen)) * 2 * genes
    counts = torch.poisson(depth * (usage @ loadings), generator=gen)
    return counts.clamp_(max=255).to(torch.uint8)


class Shard:
    """The cells of one rank, in shuffled batches without end."""

    def __init__(self, counts, rank, world, batch_size):
        self.counts = counts[rank::world].clone()
        self.batch_size = batch_size
        self.gen = torch.Generator().manual_seed(rank)

    def __iter__(self):
        usable = len(self.counts) // self.batch_size * self.batch_size
        while True:
            for rows in torch.randperm(len(self.counts), generator=self.gen)[:usable].split(self.batch_size):
                yield self.counts[rows].float()


class CellVAE(nn.Module):
    """Encoder and decoder around a small latent space; Poisson likelihood."""

    def __init__(self, genes, hidden, latent, dropout):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(genes, hidden), nn.LayerNorm(hidden), nn.ReLU(inplace=True), nn.Dropout(dropout)
        )
        self.moments = nn.Linear(hidden, 2 * latent)
        self.decoder = nn.Sequential(
            nn.Linear(latent, hidden), nn.LayerNorm(hidden), nn.ReLU(inplace=True), nn.Linear(hidden, genes)
        )

    def forward(self, counts):
        """Reconstruction loss and divergence per cell."""
        depth = counts.sum(1, keepdim=True)
        mean, log_var = self.moments(self.encoder(torch.log1p(counts))).chunk(2, dim=1)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_var)
        log_rate = nnf.log_softmax(self.decoder(z), dim=1) + depth.log()
        nll = (log_rate.exp() - counts * log_rate).sum(1).mean()
        divergence = 0.5 * (mean.square() + log_var.exp() - 1 - log_var).sum(1).mean()
        return nll, divergence


class Trainer:
    """Data parallel training with accumulated gradients."""

    def __init__(self, args):
        self.args = args
        self.rank, world = dist.get_rank(), dist.get_world_size()
        torch.manual_seed(0)
        model = CellVAE(args.genes, args.hidden, args.latent, args.dropout)
        self.model = DistributedDataParallel(model, gradient_as_bucket_view=True)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, nesterov=True)
        counts = simulate_counts(args.cells, args.genes)
        self.batches = iter(Shard(counts, self.rank, world, args.micro_batch))
        torch.manual_seed(1 + self.rank)

    def backward(self, kl_weight):
        """Forward and backward of one micro batch."""
        nll, divergence = self.model(next(self.batches))
        loss = (nll + kl_weight * divergence) / self.args.genes / self.args.accumulate
        loss.backward()
        return loss.detach()

    def train_step(self, step):
        """One update from several micro batches."""
        kl_weight = min(1.0, step / self.args.warmup)
        self.optimizer.zero_grad()
        total = torch.zeros(())
        for _ in range(self.args.accumulate):
            total += self.backward(kl_weight)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return total

    def fit(self):
        """Train, log on the first rank."""
        begun = time.time()
        for step in range(1, self.args.steps + 1):
            loss = self.train_step(step)
            if step % self.args.log_every == 0:
                dist.all_reduce(loss)
                if self.rank == 0:
                    pace = (time.time() - begun) / step
                    mean = loss.item() / dist.get_world_size()
                    print(f"step {step} loss {mean:.4f} {1000 * pace:.0f} ms", flush=True)


def main():
    """Set up the group and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=8000)
    parser.add_argument("--genes", type=int, default=2500)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--latent", type=int, default=16)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--micro-batch", type=int, default=24)
    parser.add_argument("--accumulate", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--warmup", type=int, default=400)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--log-every", type=int, default=25)
    args = parser.parse_args()
    torch.set_num_threads(max(1, (os.cpu_count() or 2) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))
    dist.init_process_group("gloo")
    try:
        Trainer(args).fit()
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
