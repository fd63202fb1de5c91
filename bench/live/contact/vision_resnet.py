"""Residual network on random-texture images; everything prepared up front."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, BatchSampler, RandomSampler

torch.set_num_threads(1)
torch.manual_seed(2)

EPOCHS = 25
CLASSES = 8


def textures(n, size=32):
    y = torch.randint(0, CLASSES, (n,))
    g = torch.arange(size).float()
    freq = (0.2 + 0.15 * y.float()).view(-1, 1, 1)
    wave = torch.sin(freq * g.view(1, 1, -1) + freq * 0.5 * g.view(1, -1, 1))
    x = wave[:, None].repeat(1, 3, 1, 1) + 0.5 * torch.randn(n, 3, size, size)
    return x, y


class Residual(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.a = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.na = nn.BatchNorm2d(cout)
        self.b = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.nb = nn.BatchNorm2d(cout)
        self.skip = nn.Identity()
        if stride != 1 or cin != cout:
            self.skip = nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        h = F.relu(self.na(self.a(x)), inplace=True)
        return F.relu(self.nb(self.b(h)) + self.skip(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, 2, 1)
        self.body = nn.Sequential(Residual(32, 32, 1), Residual(32, 64, 2),
                                  Residual(64, 128, 2))
        self.head = nn.Linear(128, CLASSES)

    def forward(self, x):
        return self.head(self.body(self.stem(x)).mean((2, 3)))


def main():
    x, y = textures(1280)
    data = TensorDataset(x, y)
    sampler = BatchSampler(RandomSampler(data), batch_size=32, drop_last=True)
    loader = DataLoader(data, sampler=sampler, batch_size=None)
    net = ResNet()
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4, fused=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS)
    for epoch in range(EPOCHS):
        total = 0.0
        for xb, yb in loader:
            loss = F.cross_entropy(net(xb), yb)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            total += loss.item()
        sched.step()
        print(f"epoch {epoch}: {total / len(loader):.3f}")


if __name__ == "__main__":
    main()
