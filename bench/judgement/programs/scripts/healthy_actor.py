"""Soft targets from a frozen teacher, without a planted mistake."""

import torch
import torch.nn.functional as F
from torch import nn


def network(width):
    return nn.Sequential(nn.Linear(128, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 50))


def main():
    torch.manual_seed(0)
    student, teacher = network(1024), network(1024).eval().requires_grad_(False)
    opt = torch.optim.AdamW(student.parameters(), lr=1e-3, fused=True)
    data = torch.randn(8192, 128)
    for step in range(100000):
        x = data[torch.randint(len(data), (512,))]
        with torch.no_grad():
            soft = teacher(x).softmax(1)
        loss = F.kl_div(student(x).log_softmax(1), soft, reduction="batchmean")
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 50 == 0:
            print(step, loss.item(), flush=True)


if __name__ == "__main__":
    main()
