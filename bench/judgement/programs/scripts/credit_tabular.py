# credit default: 12 categorical + 20 numeric columns, wide & deep
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import TensorDataset, BatchSampler, RandomSampler

CARDS = [12, 50, 7, 800, 1500, 90, 365, 24, 2000, 1200, 31, 600]
N_NUM = 20
ROWS = 40_000
BS = 512


class Categorical(nn.Module):
    """A learned vector for each value of a column."""

    def __init__(self, card, dim):
        super().__init__()
        self.card = card
        self.proj = nn.Linear(card, dim, bias=False)

    def forward(self, col):
        return self.proj(F.one_hot(col, self.card).float())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        dims = [min(32, (c + 1) // 2) for c in CARDS]
        self.cats = nn.ModuleList([Categorical(c, d) for c, d in zip(CARDS, dims)])
        self.bn = nn.BatchNorm1d(N_NUM)
        width = sum(dims) + N_NUM
        self.deep = nn.Sequential(
            nn.Linear(width, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.2),
            nn.Linear(256, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Dropout(0.2),
            nn.Linear(128, 1))
        self.wide = nn.Linear(N_NUM, 1)

    def forward(self, cat, num):
        num = self.bn(num)
        emb = [layer(cat[:, i]) for i, layer in enumerate(self.cats)]
        return (self.deep(torch.cat(emb + [num], dim=1)) + self.wide(num)).squeeze(1)


def fake_table():
    g = torch.Generator().manual_seed(0)
    cat = torch.stack([torch.randint(0, c, (ROWS,), generator=g) for c in CARDS], 1)
    num = torch.randn(ROWS, N_NUM, generator=g)
    y = ((cat[:, 3] % 5 == 0).float() + num[:, 0] > 0.5).float()
    return TensorDataset(cat, num, y)


def epoch_batches(ds):
    for idx in BatchSampler(RandomSampler(ds), BS, drop_last=True):
        yield ds[idx]


def main():
    torch.manual_seed(0)
    ds = fake_table()
    net = Net()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-2, fused=True)
    lossf = nn.BCEWithLogitsLoss()
    for epoch in range(100_000):
        tot = torch.zeros(())
        for n, (cat, num, y) in enumerate(epoch_batches(ds), 1):
            opt.zero_grad()
            loss = lossf(net(cat, num), y)
            loss.backward()
            opt.step()
            tot += loss.detach()
        print(f"epoch {epoch:3d}  logloss {tot.item() / n:.4f}", flush=True)


main()
