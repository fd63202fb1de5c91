"""Cell nuclei segmentation with a small U-Net."""
from dataclasses import dataclass
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    size: int = 64
    base: int = 12
    batch_size: int = 6
    lr: float = 3e-4
    max_steps: int = 5_000_000
    val_every: int = 5
    val_images: int = 48
    log_every: int = 25


def double_conv(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(4, o), nn.SiLU(inplace=True),
                         nn.Conv2d(o, o, 3, padding=1), nn.GroupNorm(4, o), nn.SiLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, b: int):
        super().__init__()
        self.d1, self.d2, self.d3 = double_conv(1, b), double_conv(b, 2 * b), double_conv(2 * b, 4 * b)
        self.up2 = nn.ConvTranspose2d(4 * b, 2 * b, 2, stride=2)
        self.u2 = double_conv(4 * b, 2 * b)
        self.up1 = nn.ConvTranspose2d(2 * b, b, 2, stride=2)
        self.u1 = double_conv(2 * b, b)
        self.out = nn.Conv2d(b, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.d3(F.max_pool2d(b, 2))
        y = self.u2(torch.cat([self.up2(c), b], 1))
        y = self.u1(torch.cat([self.up1(y), a], 1))
        return self.out(y)


def make_cells(n, size, seed):
    """Blobs on noise."""
    g = torch.Generator().manual_seed(seed)
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    centre = torch.rand(n, 8, 2, generator=g) * size
    radius = 3 + torch.rand(n, 8, generator=g) * 5
    dist = ((yy[None, None] - centre[..., 0, None, None]) ** 2 + (xx[None, None] - centre[..., 1, None, None]) ** 2)
    masks = (dist < radius[..., None, None] ** 2).any(1).float()
    images = masks * 0.7 + torch.randn(n, size, size, generator=g) * 0.3
    return images.unsqueeze(1), masks.unsqueeze(1)


def dice(logits, target):
    p = (logits > 0).float()
    return (2 * (p * target).sum() + 1) / (p.sum() + target.sum() + 1)


@torch.no_grad()
def validate(model, images, masks, bs):
    model.eval()
    scores = [dice(model(images[i:i + bs]), masks[i:i + bs]) for i in range(0, len(images), bs)]
    model.train()
    return torch.stack(scores).mean().item()


def bce_dice(logits, target):
    p = logits.sigmoid()
    soft = 1 - (2 * (p * target).sum() + 1) / (p.sum() + target.sum() + 1)
    return F.binary_cross_entropy_with_logits(logits, target) + soft


def main(cfg: Config):
    torch.manual_seed(0)
    images, masks = make_cells(400, cfg.size, 0)
    val_images, val_masks = make_cells(cfg.val_images, cfg.size, 1)
    model = UNet(cfg.base)
    optim = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    best = 0.0
    for step in range(1, cfg.max_steps + 1):
        idx = torch.randint(0, len(images), (cfg.batch_size,))
        loss = bce_dice(model(images[idx]), masks[idx])
        optim.zero_grad(set_to_none=True)
        loss.backward()
        optim.step()
        if step % cfg.log_every == 0:
            print(f"[{step}] loss={loss.item():.4f} best dice={best:.4f}", flush=True)
        if step % cfg.val_every == 0:
            best = max(best, validate(model, val_images, val_masks, cfg.batch_size))


if __name__ == "__main__":
    main(Config())
