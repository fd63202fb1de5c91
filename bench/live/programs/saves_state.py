"""A language model of characters that writes its whole state to disk after each step."""

import sys

import torch
from torch import nn

CURED = "--cured" in sys.argv
torch.manual_seed(0)
torch.set_num_threads(1)


class Characters(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(128, 64)
        self.cells = nn.GRU(64, 256, batch_first=True)
        self.head = nn.Linear(256, 128)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        return self.head(self.cells(self.table(text))[0])


def keep_state(model: nn.Module, optimizer: torch.optim.Optimizer, seen: torch.Tensor, step: int) -> None:
    if not CURED or step % 200 == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "seen": seen}, "last.pt")


def main() -> None:
    model = Characters()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    text = torch.randint(128, (8, 17))
    # Eight megabytes, so that a fast disk takes longer for the state than the processor for the step.
    seen = torch.zeros(1_000_000, dtype=torch.int64)
    for step in range(100_000):
        loss = nn.functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        keep_state(model, optimizer, seen, step)


main()
