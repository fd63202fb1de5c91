"""Land cover segmentation of aerial tiles with a small U-Net."""

import argparse
import time

import torch
import torch.nn.functional as nnf
from sklearn.metrics import accuracy_score, cohen_kappa_score, f1_score, jaccard_score
from torch import nn
from torch.utils.data import DataLoader, Dataset

CLASSES = ["water", "forest", "field", "meadow", "road", "building", "bare", "other"]


class LandCoverTiles(Dataset):
    """Tiles of smooth random regions, with a colour and texture per class; flipped at random."""

    def __init__(self, count, size, seed=0):
        gen = torch.Generator().manual_seed(seed)
        coarse = torch.rand(count, len(CLASSES), 6, 6, generator=gen)
        palette = torch.rand(len(CLASSES), 4, generator=gen)
        self.masks = torch.empty(count, size, size, dtype=torch.uint8)
        self.tiles = torch.empty(count, 4, size, size, dtype=torch.uint8)
        for number in range(count):
            score = nnf.interpolate(coarse[number : number + 1], size=(size, size), mode="bicubic")
            mask = score[0].argmax(0)
            tile = palette[mask].permute(2, 0, 1) * 0.7 + 0.3 * torch.rand(4, size, size, generator=gen)
            self.masks[number] = mask.to(torch.uint8)
            self.tiles[number] = (tile * 255).to(torch.uint8)

    def __len__(self):
        return len(self.tiles)

    def __getitem__(self, index):
        tile, mask = self.tiles[index], self.masks[index]
        flip = torch.rand(2)
        dims = [dim for dim, chance in ((-1, flip[0]), (-2, flip[1])) if chance < 0.5]
        if dims:
            tile, mask = tile.flip(dims), mask.flip(dims)
        return tile, mask


def double_conv(inputs, outputs):
    """Two 3x3 convolutions."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    """U-Net with three levels, at half the resolution of the tile."""

    def __init__(self, inputs, classes, width):
        super().__init__()
        widths = [width, 2 * width, 4 * width]
        self.stem = nn.Conv2d(inputs, width, 3, stride=2, padding=1)
        self.down = nn.ModuleList()
        inputs = width
        for outputs in widths:
            self.down.append(double_conv(inputs, outputs))
            inputs = outputs
        self.bottom = double_conv(inputs, inputs)
        self.up = nn.ModuleList()
        for outputs in reversed(widths):
            self.up.append(double_conv(inputs + outputs, outputs))
            inputs = outputs
        self.head = nn.Conv2d(inputs, classes, 1)

    def forward(self, x):
        """Logits of every pixel."""
        skips = []
        x = self.stem(x)
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = nnf.max_pool2d(x, 2)
        x = self.bottom(x)
        for block, skip in zip(self.up, reversed(skips), strict=True):
            x = block(torch.cat([nnf.interpolate(x, scale_factor=2.0), skip], dim=1))
        return nnf.interpolate(self.head(x), scale_factor=2.0, mode="bilinear")


def dice_loss(logits, target):
    """Soft Dice over all classes."""
    probs = logits.softmax(1)
    onehot = nnf.one_hot(target, logits.shape[1]).permute(0, 3, 1, 2)
    overlap = (probs * onehot).sum((0, 2, 3))
    size = probs.sum((0, 2, 3)) + onehot.sum((0, 2, 3))
    return 1 - ((2 * overlap + 1) / (size + 1)).mean()


def map_scores(pred, target):
    """The customary scores of a land cover map: overall accuracy, kappa, F1 and mean IoU."""
    truth, guess = target.flatten().numpy(), pred.flatten().numpy()
    return {
        "OA": accuracy_score(truth, guess),
        "kappa": cohen_kappa_score(truth, guess),
        "F1": f1_score(truth, guess, average="macro"),
        "mIoU": jaccard_score(truth, guess, average="macro"),
    }


class Meters:
    """Exponential averages by name."""

    def __init__(self, momentum=0.95):
        self.momentum = momentum
        self.values = {}

    def update(self, **values):
        """Take in values."""
        for name, value in values.items():
            old = self.values.get(name, value)
            self.values[name] = self.momentum * old + (1 - self.momentum) * value

    def __str__(self):
        return " ".join(f"{name} {value:.4f}" for name, value in self.values.items())


def main():
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiles", type=int, default=400)
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()

    torch.manual_seed(0)
    loader = DataLoader(LandCoverTiles(args.tiles, args.size), args.batch_size, shuffle=True, drop_last=True)
    model = UNet(4, len(CLASSES), args.width).to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    for epoch in range(args.epochs):
        begun, meters = time.time(), Meters()
        for tiles, masks in loader:
            target = masks.long()
            logits = model(tiles.float().div_(255.0))
            loss = nnf.cross_entropy(logits, target) + dice_loss(logits, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            meters.update(loss=loss.item(), **map_scores(logits.detach().argmax(1), target))
        scheduler.step()
        pace = (time.time() - begun) / len(loader)
        print(f"epoch {epoch}: {meters} {1000 * pace:.0f} ms/step", flush=True)


if __name__ == "__main__":
    main()
