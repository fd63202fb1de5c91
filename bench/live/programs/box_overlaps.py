"""A detector that compares boxes in pairs with two loops over tensors."""

import sys

import torch
from torch import nn

CURED = "--cured" in sys.argv
torch.manual_seed(0)
torch.set_num_threads(1)


def overlaps(ours: torch.Tensor, theirs: torch.Tensor) -> torch.Tensor:
    if CURED:
        low = torch.maximum(ours[:, None, :2], theirs[None, :, :2])
        high = torch.minimum(ours[:, None, 2:], theirs[None, :, 2:])
        return (high - low).clamp(min=0).prod(-1)
    found = torch.zeros(len(ours), len(theirs))
    for i in range(len(ours)):
        for j in range(len(theirs)):
            width = torch.minimum(ours[i, 2], theirs[j, 2]) - torch.maximum(ours[i, 0], theirs[j, 0])
            height = torch.minimum(ours[i, 3], theirs[j, 3]) - torch.maximum(ours[i, 1], theirs[j, 1])
            found[i, j] = width.clamp(min=0) * height.clamp(min=0)
    return found


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 12 * 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x).view(-1, 12, 4).sigmoid()


detector = Detector()
optimizer = torch.optim.SGD(detector.parameters(), lr=0.01)
for step in range(100_000):
    boxes = detector(torch.randn(32, 128))
    targets = torch.rand(10, 4)
    with torch.no_grad():
        best = overlaps(boxes[0], targets).argmax(1)
    loss = (boxes[0] - targets[best]).abs().mean() + boxes.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
