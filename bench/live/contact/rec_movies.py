"""Two-tower recommender on invented clicks (users x movies)."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(3)

N_USERS = 120_000
N_MOVIES = 30_000
DIM = 32
BATCH = 1024
STEPS = 550


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.users = nn.Embedding(N_USERS, DIM)
        self.movies = nn.Embedding(N_MOVIES, DIM)
        self.user_mlp = nn.Sequential(nn.Linear(DIM, 256), nn.ReLU(), nn.Linear(256, 64))
        self.movie_mlp = nn.Sequential(nn.Linear(DIM, 256), nn.ReLU(), nn.Linear(256, 64))
        nn.init.normal_(self.users.weight, std=0.1)
        nn.init.normal_(self.movies.weight, std=0.1)

    def forward(self, u, m):
        u = self.user_mlp(self.users(u))
        m = self.movie_mlp(self.movies(m))
        return F.normalize(u, dim=1), F.normalize(m, dim=1)


def make_optimizers(model):
    return [torch.optim.Adam(model.parameters(), lr=1e-3)]


def make_clicks(n):
    taste = torch.randint(0, 50, (N_USERS,))
    users = torch.randint(0, N_USERS, (n,))
    movies = (torch.rand(n).pow(2) * (N_MOVIES // 50)).long() * 50 + taste[users]
    return users, movies.clamp_(max=N_MOVIES - 1)


def in_batch_softmax(u, m, temperature=0.1):
    logits = u @ m.t() / temperature
    return F.cross_entropy(logits, torch.arange(len(u)))


def main():
    users, movies = make_clicks(400_000)
    model = Towers()
    optimizers = make_optimizers(model)
    order = torch.randperm(len(users))
    running = 0.0
    for step in range(STEPS):
        start = (step * BATCH) % (len(order) - BATCH)
        pick = order[start:start + BATCH]
        u, m = model(users[pick], movies[pick])
        loss = in_batch_softmax(u, m)
        for o in optimizers:
            o.zero_grad()
        loss.backward()
        for o in optimizers:
            o.step()
        running = 0.95 * running + 0.05 * loss.item()
        if (step + 1) % 100 == 0:
            print(f"step {step + 1} loss {running:.3f}")


if __name__ == "__main__":
    main()
