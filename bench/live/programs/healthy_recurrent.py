"""A forecaster of two LSTM layers that prints its loss now and then: nothing is wrong."""

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)


class Forecast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.LSTM(16, 192, num_layers=2, batch_first=True)
        self.head = nn.Linear(192, 16)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        return self.head(self.cells(series)[0])


model = Forecast()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
series = torch.randn(128, 25, 16).cumsum(1)
for step in range(100_000):
    loss = nn.functional.mse_loss(model(series[:, :-1]), series[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(step, float(loss))
