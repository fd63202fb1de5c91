"""Two encoder layers on sequences of one length: nothing is wrong."""

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
model = nn.Sequential(nn.Linear(64, 256), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(256, 64))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
samples = torch.randn(256, 64, 64)


def train_step(x: torch.Tensor) -> torch.Tensor:
    loss = nn.functional.mse_loss(model(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


for step in range(100_000):
    train_step(samples[step * 16 % 256 :][:16])
