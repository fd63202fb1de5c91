"""Data-parallel training of a small network on two processes: torchrun --nproc-per-node 2."""

import csv
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(nn.Module):
    def __init__(self, width=768):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(256, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, 10),
        )

    def forward(self, x):
        return self.layers(x)


def write_predictions(model, x, y, path):
    """The predictions of the batch, for the dashboard."""
    with torch.no_grad():
        probs = model(x).softmax(1)
    with open(path, "w", newline="") as out:
        writer = csv.writer(out)
        for row, label in zip(probs, y):
            writer.writerow([f"{p:.5f}" for p in row.tolist()] + [label.item()])


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    torch.set_num_threads(1)
    model = DDP(Net())
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    x_all, y_all = torch.randn(8192, 256), torch.randint(10, (8192,))
    for step in range(100000):
        at = torch.randint(len(x_all), (512,))
        x, y = x_all[at], y_all[at]
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0:
            for part in range(8):
                write_predictions(model.module, x, y, f"/tmp/predictions_{os.getpid()}.csv")
            if step % 20 == 0:
                print(step, loss.item(), flush=True)


if __name__ == "__main__":
    main()
