"""Speech enhancement: a 1-d U-Net on noisy waves, with an EMA and rare checkpoints."""
import os
import tempfile

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler


class NoisyTones(Dataset):
    """Indexed by a whole batch of indices."""

    def __init__(self, n=1200, length=4096):
        t = torch.arange(length) / 16000
        f = 100 + 900 * torch.rand(n, 3, 1)
        self.clean = torch.sin(2 * torch.pi * f * t).mean(1, keepdim=True)

    def __len__(self):
        return len(self.clean)

    def __getitem__(self, indices):
        clean = self.clean[indices]
        return clean + 0.3 * torch.randn_like(clean), clean


def down(i, o):
    return nn.Sequential(nn.Conv1d(i, o, 8, stride=4, padding=2), nn.BatchNorm1d(o), nn.LeakyReLU(0.1, inplace=True))


def up(i, o):
    return nn.Sequential(nn.ConvTranspose1d(i, o, 8, stride=4, padding=2), nn.BatchNorm1d(o), nn.LeakyReLU(0.1, inplace=True))


class WaveUNet(nn.Module):
    def __init__(self, c=32):
        super().__init__()
        self.d1, self.d2, self.d3 = down(1, c), down(c, 2 * c), down(2 * c, 4 * c)
        self.mid = nn.Sequential(nn.Conv1d(4 * c, 4 * c, 3, padding=1), nn.LeakyReLU(0.1, inplace=True))
        self.u3, self.u2 = up(4 * c, 2 * c), up(4 * c, c)
        self.u1 = nn.ConvTranspose1d(2 * c, 1, 8, stride=4, padding=2)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(a)
        h = self.mid(self.d3(b))
        h = self.u3(h)
        h = self.u2(torch.cat([h, b], 1))
        return x + self.u1(torch.cat([h, a], 1))


class EMA:
    def __init__(self, model, decay=0.999):
        self.source = [p for p in model.parameters()]
        self.shadow = [p.detach().clone() for p in self.source]
        self.decay = decay

    @torch.no_grad()
    def update(self):
        torch._foreach_lerp_(self.shadow, self.source, 1 - self.decay)


def main(out):
    torch.manual_seed(0)
    data = NoisyTones()
    sampler = BatchSampler(RandomSampler(data), batch_size=12, drop_last=True)
    loader = DataLoader(data, sampler=sampler, batch_size=None)
    model = WaveUNet()
    ema = EMA(model)
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4)
    step = 0
    for epoch in range(1_000_000):
        for noisy, clean in loader:
            loss = nn.functional.l1_loss(model(noisy), clean)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            ema.update()
            step += 1
            if step % 100 == 0:
                print(f"step {step} l1 {loss.item():.4f}", flush=True)
            if step % 2000 == 0:
                torch.save({"model": model.state_dict(), "ema": ema.shadow}, os.path.join(out, "last.pt"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
