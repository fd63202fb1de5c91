"""A small residual network on pictures of CIFAR's size."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.autograd.set_detect_anomaly(True)


def conv(cin, cout, stride=1):
    return nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False)


class Block(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv1, self.bn1 = conv(cin, cout, stride), nn.BatchNorm2d(cout)
        self.conv2, self.bn2 = conv(cout, cout), nn.BatchNorm2d(cout)
        self.short = nn.Sequential()
        if stride != 1 or cin != cout:
            self.short = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + self.short(x))


class ResNet(nn.Module):
    def __init__(self, depth=5, widths=(8, 16, 32), classes=10):
        super().__init__()
        self.stem = nn.Sequential(conv(3, widths[0]), nn.BatchNorm2d(widths[0]), nn.ReLU())
        blocks, cin = [], widths[0]
        for i, width in enumerate(widths):
            for j in range(depth):
                blocks.append(Block(cin, width, 2 if i and not j else 1))
                cin = width
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(cin, classes)

    def forward(self, x):
        return self.fc(self.blocks(self.stem(x)).mean((2, 3)))


def augment(x):
    if torch.rand(()) < 0.5:
        x = x.flip(3)
    dx, dy = torch.randint(-2, 3, (2,)).tolist()
    return x.roll((dy, dx), (2, 3))


def main():
    torch.manual_seed(0)
    images, labels = torch.randn(4096, 3, 32, 32), torch.randint(0, 10, (4096,))
    loader = DataLoader(TensorDataset(images, labels), batch_size=16, shuffle=True, drop_last=True)
    model = ResNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    step = 0
    for epoch in range(1000):
        model.train()
        for x, y in loader:
            loss = F.cross_entropy(model(augment(x)), y, label_smoothing=0.1)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            step += 1
            if step % 50 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
