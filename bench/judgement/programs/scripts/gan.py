"""DCGAN on random pictures."""

import torch
from torch import nn

LATENT = 64


def make_generator(width=32):
    return nn.Sequential(
        nn.ConvTranspose2d(LATENT, width * 4, 4, 1, 0, bias=False),
        nn.BatchNorm2d(width * 4),
        nn.ReLU(True),
        nn.ConvTranspose2d(width * 4, width * 2, 4, 2, 1, bias=False),
        nn.BatchNorm2d(width * 2),
        nn.ReLU(True),
        nn.ConvTranspose2d(width * 2, width, 4, 2, 1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(True),
        nn.ConvTranspose2d(width, 3, 4, 2, 1),
        nn.Tanh(),
    )


def make_discriminator(width=32):
    return nn.Sequential(
        nn.Conv2d(3, width, 4, 2, 1),
        nn.LeakyReLU(0.2, True),
        nn.Conv2d(width, width * 2, 4, 2, 1, bias=False),
        nn.BatchNorm2d(width * 2),
        nn.LeakyReLU(0.2, True),
        nn.Conv2d(width * 2, width * 4, 4, 2, 1, bias=False),
        nn.BatchNorm2d(width * 4),
        nn.LeakyReLU(0.2, True),
        nn.Conv2d(width * 4, 1, 4, 1, 0),
    )


def save_grid(images, path):
    """Writes a PPM picture of the first images side by side."""
    rows = ((images.clamp(-1, 1) + 1) * 127.5).to(torch.uint8)
    grid = torch.cat(list(rows), dim=2)
    with open(path, "w") as out:
        out.write(f"P3 {grid.shape[2]} {grid.shape[1]} 255\n")
        for y in range(grid.shape[1]):
            out.write(" ".join(str(int(v)) for x in range(grid.shape[2]) for v in grid[:, y, x]) + "\n")


def main():
    torch.manual_seed(0)
    g, d = make_generator(), make_discriminator()
    opt_g = torch.optim.Adam(g.parameters(), 2e-4, betas=(0.5, 0.999))
    opt_d = torch.optim.Adam(d.parameters(), 2e-4, betas=(0.5, 0.999))
    bce = nn.BCEWithLogitsLoss()
    data = torch.rand(512, 3, 32, 32) * 2 - 1
    fixed = torch.randn(4, LATENT, 1, 1)
    for step in range(100000):
        real = data[torch.randint(len(data), (32,))]
        z = torch.randn(32, LATENT, 1, 1)
        fake = g(z)
        out_real, out_fake = d(real).flatten(), d(fake.detach()).flatten()
        loss_d = bce(out_real, torch.ones_like(out_real)) + bce(out_fake, torch.zeros_like(out_fake))
        opt_d.zero_grad()
        loss_d.backward()
        opt_d.step()
        out = d(fake).flatten()
        loss_g = bce(out, torch.ones_like(out))
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
        with torch.no_grad():
            save_grid(g(fixed), "/tmp/gan_samples.ppm")
        if step % 20 == 0:
            print(step, float(loss_d), float(loss_g), flush=True)


if __name__ == "__main__":
    main()
