"""A wide perceptron on data that is in memory: nothing is wrong."""

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
data, target = torch.randn(4096, 512), torch.randint(0, 10, (4096,))
model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(100_000):
    first = step * 256 % 4096
    loss = nn.functional.cross_entropy(model(data[first : first + 256]), target[first : first + 256])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
