"""Spectrally normalised GAN with the hinge loss on 32x32 images."""

import time

import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

LATENT = 96
BATCH = 32
D_STEPS = 3
ITERATIONS = 4000


def toy_faces(count, seed=1):
    """Crude faces: an oval, two eyes and a mouth, in random colours."""
    gen = torch.Generator().manual_seed(seed)
    ys, xs = torch.meshgrid(torch.linspace(-1, 1, 32), torch.linspace(-1, 1, 32), indexing="ij")

    def rand(low, high):
        return torch.rand(count, 1, 1, 1, generator=gen) * (high - low) + low

    skin = torch.rand(count, 3, 1, 1, generator=gen) * 0.8
    back = torch.rand(count, 3, 1, 1, generator=gen) * 0.8 - 0.8
    oval = ((xs / rand(0.5, 0.8)) ** 2 + (ys / rand(0.7, 0.95)) ** 2 < 1).float()
    gap, level = rand(0.15, 0.35), rand(-0.4, -0.1)
    eyes = ((xs.abs() - gap) ** 2 + (ys - level) ** 2 < 0.01).float()
    mouth = ((xs.abs() < rand(0.1, 0.4)) & ((ys - rand(0.3, 0.5)).abs() < 0.06)).float()
    faces = back * (1 - oval) + skin * oval
    faces = faces * (1 - eyes) - eyes
    return faces * (1 - mouth) + mouth * torch.tensor([0.9, -0.5, -0.5]).view(1, 3, 1, 1)


class UpBlock(nn.Module):
    """Residual block which doubles the resolution."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.skip = nn.Conv2d(inputs, outputs, 1)
        self.body = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.ReLU(),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1),
        )
        self.up = nn.Upsample(scale_factor=2)

    def forward(self, x):
        """Upsample with a residual."""
        return self.up(self.skip(x)) + self.body(x)


class Generator(nn.Module):
    """From noise to images."""

    def __init__(self, width=64):
        super().__init__()
        self.width = width
        self.start = nn.Linear(LATENT, width * 4 * 4)
        self.blocks = nn.Sequential(UpBlock(width, width), UpBlock(width, width), UpBlock(width, width // 2))
        self.out = nn.Sequential(
            nn.BatchNorm2d(width // 2), nn.ReLU(), nn.Conv2d(width // 2, 3, 3, padding=1), nn.Tanh()
        )

    def forward(self, z):
        """Generate."""
        return self.out(self.blocks(self.start(z).view(-1, self.width, 4, 4)))


class Discriminator(nn.Module):
    """Strided convolutions under spectral norm."""

    def __init__(self, width=32):
        super().__init__()
        layers, inputs = [], 3
        for outputs in (width, 2 * width, 3 * width):
            layers += [spectral_norm(nn.Conv2d(inputs, outputs, 4, stride=2, padding=1)), nn.LeakyReLU(0.1)]
            inputs = outputs
        self.features = nn.Sequential(*layers)
        self.score = spectral_norm(nn.Linear(inputs * 4 * 4, 1))

    def forward(self, x):
        """Score realism."""
        return self.score(self.features(x).flatten(1)).squeeze(1)


class Trainer:
    """Alternating updates of both networks."""

    def __init__(self):
        self.images = toy_faces(4000)
        self.generator = Generator().to(memory_format=torch.channels_last)
        self.discriminator = Discriminator().to(memory_format=torch.channels_last)
        self.opt_g = torch.optim.Adam(self.generator.parameters(), lr=1e-4, betas=(0.0, 0.9))
        self.opt_d = torch.optim.Adam(self.discriminator.parameters(), lr=4e-4, betas=(0.0, 0.9))

    def real_batch(self):
        """A random batch of images."""
        return self.images[torch.randint(0, len(self.images), (BATCH,))]

    def fake_batch(self):
        """A batch from the generator."""
        return self.generator(torch.randn(BATCH, LATENT))

    def discriminator_step(self):
        """One update of the discriminator."""
        real, fake = self.real_batch(), self.fake_batch()
        loss = torch.relu(1.0 - self.discriminator(real)).mean() + torch.relu(1.0 + self.discriminator(fake)).mean()
        self.opt_d.zero_grad()
        loss.backward()
        self.opt_d.step()
        return loss.detach()

    def generator_step(self):
        """One update of the generator, the discriminator held fixed."""
        self.discriminator.requires_grad_(False)
        loss = -self.discriminator(self.fake_batch()).mean()
        self.opt_g.zero_grad()
        loss.backward()
        self.opt_g.step()
        self.discriminator.requires_grad_(True)
        return loss.detach()

    def run(self):
        """Train for all iterations."""
        begun = time.time()
        for iteration in range(1, ITERATIONS + 1):
            for _ in range(D_STEPS):
                d_loss = self.discriminator_step()
            g_loss = self.generator_step()
            if iteration % 20 == 0:
                pace = (time.time() - begun) / iteration
                print(f"{iteration}: D {d_loss.item():.3f} G {g_loss.item():.3f} {pace:.3f} s/it", flush=True)


if __name__ == "__main__":
    torch.manual_seed(11)
    Trainer().run()
