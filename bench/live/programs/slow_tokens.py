"""A text classifier whose dataset splits and counts its words in the training process, sample by sample."""

import random
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CURED = "--cured" in sys.argv
torch.manual_seed(0)
torch.set_num_threads(1)
words = [f"word{number}" for number in range(2000)]
number_of = {word: number for number, word in enumerate(words)}
dice = random.Random(0)


class Reviews(Dataset):
    def __init__(self) -> None:
        self.texts = [" ".join(dice.choices(words, k=300)) for _ in range(1024)]
        self.ready = [self.counted(text) for text in self.texts] if CURED else []

    def __len__(self) -> int:
        return len(self.texts)

    def counted(self, text: str) -> torch.Tensor:
        counts = [0.0] * len(words)
        for word in text.lower().split():
            word = word.strip(".,;:!?")
            if word in number_of:
                counts[number_of[word]] += 1
        return torch.tensor(counts)

    def __getitem__(self, place: int) -> tuple[torch.Tensor, int]:
        return (self.ready[place] if CURED else self.counted(self.texts[place])), place % 2


loader = DataLoader(Reviews(), batch_size=64, shuffle=True)
model = nn.Sequential(nn.Linear(len(words), 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(10_000):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
