"""Matrix factorisation with a small network on top; validated from time to time."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

USERS, MOVIES = 6000, 4000


def ratings(n, seed):
    g = torch.Generator().manual_seed(seed)
    users = torch.randint(0, USERS, (n,), generator=g)
    movies = torch.randint(0, MOVIES, (n,), generator=g)
    stars = ((users * 31 + movies * 17) % 5 + 1).float()
    return TensorDataset(users, movies, stars)


class NeuralCF(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.user, self.movie = nn.Embedding(USERS, dim), nn.Embedding(MOVIES, dim)
        self.user_bias, self.movie_bias = nn.Embedding(USERS, 1), nn.Embedding(MOVIES, 1)
        self.mlp = nn.Sequential(
            nn.Linear(2 * dim, 256), nn.ReLU(), nn.Dropout(0.1), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 1),
        )

    def forward(self, users, movies):
        u, m = self.user(users), self.movie(movies)
        score = self.mlp(torch.cat([u, m], 1)) + (u * m).sum(1, keepdim=True)
        return (score + self.user_bias(users) + self.movie_bias(movies)).squeeze(1)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    total, n = 0.0, 0
    for users, movies, stars in loader:
        total += F.mse_loss(model(users, movies), stars, reduction="sum").item()
        n += len(stars)
    model.train()
    return (total / n) ** 0.5


def main():
    torch.manual_seed(0)
    train = DataLoader(ratings(100_000, 0), batch_size=512, shuffle=True)
    valid = DataLoader(ratings(4_000, 1), batch_size=1000)
    model = NeuralCF()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    accumulate, eval_every, best, step = 4, 4, float("inf"), 0
    for epoch in range(10_000):
        for i, (users, movies, stars) in enumerate(train):
            loss = F.mse_loss(model(users, movies), stars) / accumulate
            loss.backward()
            if (i + 1) % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
                step += 1
            if i % eval_every == 0:
                best = min(best, validate(model, valid))
            if i % 200 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item() * accumulate:.3f} best {best:.3f}", flush=True)


if __name__ == "__main__":
    main()
