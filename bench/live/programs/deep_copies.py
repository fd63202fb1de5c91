"""Self-supervised training that copies the whole model each step to make its slow teacher."""

import copy
import sys

import torch
from torch import nn

CURED = "--cured" in sys.argv
torch.manual_seed(0)
torch.set_num_threads(1)


def encoder() -> nn.Module:
    blocks = [nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU()) for _ in range(24)]
    return nn.Sequential(*blocks, nn.Linear(64, 32))


def follow(teacher: nn.Module, student: nn.Module) -> nn.Module:
    if CURED:
        with torch.no_grad():
            torch._foreach_lerp_([*teacher.parameters()], [*student.parameters()], 0.01)
        return teacher
    fresh = copy.deepcopy(student)
    with torch.no_grad():
        for ours, old in zip(fresh.parameters(), teacher.parameters(), strict=True):
            ours.mul_(0.01).add_(old, alpha=0.99)
    return fresh


def main() -> None:
    student = encoder()
    teacher = copy.deepcopy(student)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.01)
    for _ in range(100_000):
        x = torch.randn(128, 64)
        with torch.no_grad():
            wanted = teacher(x)
        loss = nn.functional.mse_loss(student(x + 0.1 * torch.randn_like(x)), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        teacher = follow(teacher, student)


main()
