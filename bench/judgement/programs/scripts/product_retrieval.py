"""Two-tower product retrieval with a memory of past item embeddings (cross-batch memory)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Tower(nn.Module):
    def __init__(self, n_ids, n_dense, dim=64):
        super().__init__()
        self.ids = nn.EmbeddingBag(n_ids, 48, mode="mean")
        self.mlp = nn.Sequential(
            nn.Linear(48 + n_dense, 256), nn.ReLU(),
            nn.Linear(256, 256), nn.ReLU(),
            nn.Linear(256, dim),
        )

    def forward(self, ids, dense):
        return F.normalize(self.mlp(torch.cat([self.ids(ids), dense], 1)), dim=1)


class Memory:
    """A ring of the newest item embeddings; they are used as negatives."""

    def __init__(self, size, dim):
        self.bank = F.normalize(torch.randn(size, dim), dim=1)
        self.at = 0

    def push(self, z):
        n = len(z)
        self.bank[self.at:self.at + n] = z
        self.at = (self.at + n) % len(self.bank)


def pairwise_sqdist(a, b):
    diff = a.unsqueeze(1) - b.unsqueeze(0)
    return diff.pow(2).sum(dim=-1)


class ContrastiveLoss(nn.Module):
    def __init__(self, temperature=0.2):
        super().__init__()
        self.temperature = temperature

    def forward(self, query, item, bank):
        positive = -(query - item).pow(2).sum(1, keepdim=True)
        negative = -pairwise_sqdist(query, bank)
        logits = torch.cat([positive, negative], 1) / self.temperature
        return F.cross_entropy(logits, torch.zeros(len(query), dtype=torch.long))


class Clicks:
    def __init__(self, n=20_000, users=3000, items=4000):
        g = torch.Generator().manual_seed(9)
        self.u_ids = torch.randint(0, users, (n, 6), generator=g)
        self.i_ids = torch.randint(0, items, (n, 4), generator=g)
        self.u_dense = torch.randn(n, 16, generator=g)
        self.i_dense = torch.randn(n, 24, generator=g)

    def batch(self, size):
        i = torch.randint(0, len(self.u_ids), (size,))
        return self.u_ids[i], self.u_dense[i], self.i_ids[i], self.i_dense[i]


def train():
    torch.manual_seed(0)
    data = Clicks()
    users, items = Tower(3000, 16), Tower(4000, 24)
    memory = Memory(1024, 64)
    loss_fn = ContrastiveLoss()
    optimizer = torch.optim.Adagrad([*users.parameters(), *items.parameters()], lr=0.02)
    avg = None
    for step in range(30_000_000):
        u_ids, u_dense, i_ids, i_dense = data.batch(128)
        query = users(u_ids, u_dense)
        item = items(i_ids, i_dense)
        loss = loss_fn(query, item, memory.bank)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        memory.push(item.detach())
        avg = loss.item() if avg is None else 0.98 * avg + 0.02 * loss.item()
        if step % 100 == 0:
            print("step", step, "loss", round(avg, 4), flush=True)


if __name__ == "__main__":
    train()
