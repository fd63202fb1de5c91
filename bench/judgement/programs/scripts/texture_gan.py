"""GAN for textures with a spectrally normalised critic (hinge loss)."""
import torch
import torch.nn.functional as F
from torch import nn

Z, CH, SIZE, BATCH = 64, 32, 32, 16


def largest_singular_value(weight):
    return torch.linalg.svdvals(weight.flatten(1))[0]


class SNConv2d(nn.Conv2d):
    """A convolution with the Lipschitz constant kept at one."""

    def forward(self, x):
        w = self.weight / largest_singular_value(self.weight)
        return F.conv2d(x, w, self.bias, self.stride, self.padding)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(Z, CH * 4 * 16)
        self.up1 = nn.ConvTranspose2d(CH * 4, CH * 2, 4, 2, 1)
        self.up2 = nn.ConvTranspose2d(CH * 2, CH, 4, 2, 1)
        self.up3 = nn.ConvTranspose2d(CH, 3, 4, 2, 1)
        self.n1, self.n2 = nn.BatchNorm2d(CH * 2), nn.BatchNorm2d(CH)

    def forward(self, z):
        x = F.relu(self.fc(z)).view(-1, CH * 4, 4, 4)
        x = F.relu(self.n1(self.up1(x)))
        x = F.relu(self.n2(self.up2(x)))
        return torch.tanh(self.up3(x))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([
            SNConv2d(3, CH, 3, padding=1),
            SNConv2d(CH, CH * 2, 4, stride=2, padding=1),
            SNConv2d(CH * 2, CH * 4, 4, stride=2, padding=1),
            SNConv2d(CH * 4, CH * 4, 4, stride=2, padding=1),
        ])
        self.fc = nn.Linear(CH * 4, 1)

    def forward(self, x):
        for layer in self.layers:
            x = F.leaky_relu(layer(x), 0.1)
        return self.fc(x.sum((2, 3)))


def textures(n, generator):
    """Plaids of random frequency and colour."""
    grid = torch.linspace(0, 6.28, SIZE)
    fx, fy = torch.randint(1, 6, (2, n, 1, 1), generator=generator)
    pattern = torch.sin(fx * grid.view(1, 1, -1)) * torch.cos(fy * grid.view(1, -1, 1))
    colour = torch.rand(n, 3, 1, 1, generator=generator) * 2 - 1
    return (pattern.unsqueeze(1) * colour).clamp(-1, 1)


def main():
    torch.manual_seed(0)
    source = textures(1500, torch.Generator().manual_seed(1))
    gen, critic = Generator(), Critic()
    opt_g = torch.optim.Adam(gen.parameters(), lr=2e-4, betas=(0.0, 0.9))
    opt_c = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.0, 0.9))

    iteration = 0
    while iteration < 10_000_000:
        real = source[torch.randint(0, len(source), (BATCH,))]
        with torch.no_grad():
            fake = gen(torch.randn(BATCH, Z))
        loss_c = F.relu(1 - critic(real)).mean() + F.relu(1 + critic(fake)).mean()
        opt_c.zero_grad()
        loss_c.backward()
        opt_c.step()

        critic.requires_grad_(False)
        loss_g = -critic(gen(torch.randn(BATCH, Z))).mean()
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
        critic.requires_grad_(True)

        if iteration % 50 == 0:
            print(f"it {iteration} critic {loss_c.item():.3f} gen {loss_g.item():.3f}", flush=True)
        iteration += 1


if __name__ == "__main__":
    main()
