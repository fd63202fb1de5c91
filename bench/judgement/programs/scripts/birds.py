"""Trains a new classifier on top of a pretrained backbone."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Birds(Dataset):
    """Pictures of 64 x 64, normalised."""

    def __init__(self, n=2000, classes=20):
        g = torch.Generator().manual_seed(1)
        self.images = torch.randint(0, 256, (n, 3, 64, 64), dtype=torch.uint8, generator=g)
        self.labels = torch.randint(0, classes, (n,), generator=g)
        self.mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
        self.std = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return (self.images[i].float().div_(255) - self.mean) / self.std, self.labels[i]


class Backbone(nn.Module):
    def __init__(self, widths=(16, 32, 64, 96)):
        super().__init__()
        layers, cin = [], 3
        for w in widths:
            layers += [nn.Conv2d(cin, w, 3, padding=1), nn.BatchNorm2d(w), nn.ReLU(), nn.MaxPool2d(2)]
            cin = w
        self.features = nn.Sequential(*layers)
        self.dim = cin

    def forward(self, x):
        return self.features(x).mean((2, 3))


class Classifier(nn.Module):
    def __init__(self, backbone, classes):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(backbone.dim, 128), nn.ReLU(), nn.Linear(128, classes))

    def forward(self, x):
        features = self.backbone(x)
        return self.head(features)


def main():
    torch.manual_seed(0)
    loader = DataLoader(Birds(), batch_size=16, shuffle=True, drop_last=True)
    model = Classifier(Backbone(), classes=20)
    optimizer = torch.optim.AdamW(model.head.parameters(), lr=1e-3)
    seen, correct, step = 0, 0, 0
    for epoch in range(1000):
        model.train()
        model.backbone.eval()
        for x, y in loader:
            logits = model(x)
            loss = F.cross_entropy(logits, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            correct += (logits.argmax(1) == y).sum().item()
            seen += len(y)
            step += 1
            if step % 50 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.3f} accuracy {correct / seen:.3f}", flush=True)


if __name__ == "__main__":
    main()
