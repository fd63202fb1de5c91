"""A generative adversarial network of small faces."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LATENT, SIZE = 64, 32


class Generator(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.start = nn.Linear(LATENT, 4 * width * 4 * 4)
        self.width = width
        self.net = nn.Sequential(
            nn.BatchNorm2d(4 * width), nn.ReLU(True),
            nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU(True),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh(),
        )

    def forward(self, z):
        return self.net(self.start(z).view(-1, 4 * self.width, 4, 4))


class Discriminator(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, width, 4, 2, 1), nn.LeakyReLU(0.2, True),
            nn.Conv2d(width, 2 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * width), nn.LeakyReLU(0.2, True),
            nn.Conv2d(2 * width, 4 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(4 * width), nn.LeakyReLU(0.2, True),
            nn.Flatten(), nn.Linear(4 * width * 16, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


def main():
    torch.manual_seed(0)
    faces = torch.rand(3000, 3, SIZE, SIZE) * 2 - 1
    loader = DataLoader(TensorDataset(faces), batch_size=48, shuffle=True, drop_last=True)
    g, d = Generator(), Discriminator()
    opt_g = torch.optim.Adam(g.parameters(), lr=2e-4, betas=(0.5, 0.999))
    opt_d = torch.optim.Adam(d.parameters(), lr=2e-4, betas=(0.5, 0.999))
    step = 0
    for epoch in range(10_000):
        for (real,) in loader:
            fake = g(torch.randn(len(real), LATENT))
            opt_d.zero_grad(set_to_none=True)
            loss_d = F.softplus(-d(real)).mean() + F.softplus(d(fake.detach())).mean()
            loss_d.backward()
            opt_d.step()
            opt_g.zero_grad(set_to_none=True)
            d.requires_grad_(False)
            loss_g = F.softplus(-d(fake)).mean()
            loss_g.backward()
            d.requires_grad_(True)
            opt_g.step()
            step += 1
            if step % 50 == 0:
                print(f"epoch {epoch} step {step} d {loss_d.item():.3f} g {loss_g.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
