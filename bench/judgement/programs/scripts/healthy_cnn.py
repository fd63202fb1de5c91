"""A residual network without a planted mistake."""

import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(i, o, 3, stride, 1, bias=False),
            nn.BatchNorm2d(o),
            nn.ReLU(inplace=True),
            nn.Conv2d(o, o, 3, 1, 1, bias=False),
            nn.BatchNorm2d(o),
        )
        self.skip = nn.Conv2d(i, o, 1, stride, bias=False)

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


def main():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, 1, 1),
        Residual(32, 32, 1),
        Residual(32, 64, 2),
        Residual(64, 128, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, 10),
    )
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, foreach=True)
    images, labels = torch.randn(1024, 3, 32, 32), torch.randint(10, (1024,))
    for step in range(100000):
        at = torch.randint(len(images), (32,))
        loss = nn.functional.cross_entropy(model(images[at]), labels[at])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 50 == 0:
            print(step, loss.item(), flush=True)


if __name__ == "__main__":
    main()
