"""Intent classification, two ranks over gloo: torchrun --nproc-per-node 2 ddp_intent.py

The effective batch is 4 micro batches on each rank.
"""
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

VOCAB, DIM, HIDDEN, CLASSES = 8000, 256, 1024, 150
MICRO_BATCH, SEQ, ACCUMULATE = 16, 24, 4


class IntentModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.ff = nn.Sequential(
            nn.Linear(DIM, HIDDEN), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(HIDDEN, HIDDEN), nn.ReLU(),
        )
        self.attn = nn.Linear(DIM, 1)
        self.out = nn.Linear(HIDDEN, CLASSES)

    def forward(self, tokens):
        e = self.embed(tokens)
        w = self.attn(e).softmax(1)
        return self.out(self.ff((w * e).sum(1)))


def stream(rank, world, n=6000):
    g = torch.Generator().manual_seed(11)
    tokens = torch.randint(0, VOCAB, (n, SEQ), generator=g)
    labels = tokens[:, 0] % CLASSES
    tokens, labels = tokens[rank::world], labels[rank::world]
    shuffle = torch.Generator().manual_seed(100 + rank)
    while True:
        order = torch.randperm(len(tokens), generator=shuffle)
        for i in range(0, len(order) - MICRO_BATCH + 1, MICRO_BATCH):
            pick = order[i : i + MICRO_BATCH]
            yield tokens[pick], labels[pick]


def run():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(5)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    model = DDP(IntentModel())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loss_fn = nn.CrossEntropyLoss()
    batches = stream(rank, world)

    for step in range(50_000_000):
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for micro in range(ACCUMULATE):
            tokens, labels = next(batches)
            loss = loss_fn(model(tokens), labels) / ACCUMULATE
            loss.backward()
            total += loss.item()
        optimizer.step()
        if rank == 0 and step % 50 == 0:
            print(f"step {step}: {total:.4f}", flush=True)

    dist.destroy_process_group()


if __name__ == "__main__":
    run()
