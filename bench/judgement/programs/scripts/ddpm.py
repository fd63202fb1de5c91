"""Denoising diffusion of small pictures, with an averaged copy of the weights."""
import torch
import torch.nn.functional as F
from torch import nn

STEPS = 1000


class Residual(nn.Module):
    def __init__(self, dim, time_dim):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, dim), nn.GroupNorm(8, dim)
        self.conv1, self.conv2 = nn.Conv2d(dim, dim, 3, padding=1), nn.Conv2d(dim, dim, 3, padding=1)
        self.time = nn.Linear(time_dim, dim)

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(t)[:, :, None, None]
        return x + self.conv2(F.silu(self.norm2(h)))


class Denoiser(nn.Module):
    def __init__(self, dim=192, time_dim=256, blocks=8):
        super().__init__()
        self.time = nn.Sequential(nn.Embedding(STEPS, time_dim), nn.Linear(time_dim, time_dim), nn.SiLU())
        self.inp = nn.Conv2d(3, dim, 4, stride=4)
        self.blocks = nn.ModuleList(Residual(dim, time_dim) for _ in range(blocks))
        self.out = nn.ConvTranspose2d(dim, 3, 4, stride=4)

    def forward(self, x, t):
        t, h = self.time(t), self.inp(x)
        for block in self.blocks:
            h = block(h, t)
        return self.out(h)


class EMA:
    def __init__(self, model, decay=0.999):
        self.decay = decay
        self.shadow = {k: v.clone() for k, v in model.state_dict().items()}

    def update(self, model):
        state = {k: v.clone() for k, v in model.state_dict().items()}
        averaged = {}
        for k, v in state.items():
            averaged[k] = (self.decay * self.shadow[k].double() + (1 - self.decay) * v.double()).float()
        self.shadow = averaged


def main():
    torch.manual_seed(0)
    images = torch.rand(2048, 3, 16, 16) * 2 - 1
    alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.02, STEPS), 0)
    model = Denoiser()
    ema = EMA(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    for step in range(1, 1_000_000):
        x = images[torch.randint(0, len(images), (8,))]
        t = torch.randint(0, STEPS, (len(x),))
        noise, a = torch.randn_like(x), alphas[t].view(-1, 1, 1, 1)
        loss = F.mse_loss(model(a.sqrt() * x + (1 - a).sqrt() * noise, t), noise)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        ema.update(model)
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
