# customer churn, tabular MLP with categorical embeddings
import numpy as np
import torch
import torch.nn as nn
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler
from torch.utils.data import DataLoader, TensorDataset


class CFG:
    seed = 2024
    rows = 120_000
    n_num = 32
    cardinalities = [12, 50, 7, 300, 24, 5]
    emb_dim = 8
    hidden = 160
    batch_size = 4096
    lr = 2e-3
    epochs = 20_000
    print_freq = 20


def seed_everything(seed):
    np.random.seed(seed)
    torch.manual_seed(seed)


def load_frame():
    num = np.random.randn(CFG.rows, CFG.n_num)
    cat = np.stack([np.random.randint(0, c, CFG.rows) for c in CFG.cardinalities], axis=1)
    score = num[:, 0] - 0.7 * num[:, 1] * num[:, 2] + 0.3 * (cat[:, 0] % 3) + 0.2 * np.random.randn(CFG.rows)
    target = (score > np.quantile(score, 0.8)).astype(np.float32)
    num = StandardScaler().fit_transform(num).astype(np.float32)
    return num, cat.astype(np.int64), target


class ChurnNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings = nn.ModuleList([nn.Embedding(c, CFG.emb_dim) for c in CFG.cardinalities])
        width = CFG.n_num + CFG.emb_dim * len(CFG.cardinalities)
        self.net = nn.Sequential(
            nn.Linear(width, CFG.hidden), nn.BatchNorm1d(CFG.hidden), nn.ReLU(), nn.Dropout(0.2),
            nn.Linear(CFG.hidden, CFG.hidden), nn.BatchNorm1d(CFG.hidden), nn.ReLU(), nn.Dropout(0.2),
            nn.Linear(CFG.hidden, 1),
        )

    def forward(self, num, cat):
        embedded = [emb(cat[:, i]) for i, emb in enumerate(self.embeddings)]
        return self.net(torch.cat([num] + embedded, dim=1)).squeeze(1)


class AverageMeter:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value, n):
        self.total += value * n
        self.count += n

    @property
    def avg(self):
        return self.total / max(self.count, 1)


def train_fn(loader, model, criterion, optimizer, scheduler, epoch):
    model.train()
    losses = AverageMeter()
    for step, (num, cat, target) in enumerate(loader):
        logits = model(num, cat)
        loss = criterion(logits, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.update(loss.item(), len(target))
        if step % CFG.print_freq == 0:
            print(f"Epoch [{epoch}] step {step}/{len(loader)} loss {losses.avg:.4f} lr {scheduler.get_last_lr()[0]:.2e}", flush=True)
    return losses.avg


def valid_fn(num, cat, target, model):
    model.eval()
    with torch.no_grad():
        scores = torch.sigmoid(model(num, cat)).numpy()
    return roc_auc_score(target.numpy(), scores)


def run():
    seed_everything(CFG.seed)
    torch.set_num_threads(1)
    num, cat, target = (torch.from_numpy(a) for a in load_frame())
    cut = CFG.rows - 4000
    train_ds = TensorDataset(num[:cut], cat[:cut], target[:cut])
    loader = DataLoader(train_ds, batch_size=CFG.batch_size, shuffle=True)
    model = ChurnNet()
    criterion = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=CFG.lr, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=10 * len(loader))
    best = 0.0
    for epoch in range(CFG.epochs):
        avg = train_fn(loader, model, criterion, optimizer, scheduler, epoch)
        auc = valid_fn(num[cut:], cat[cut:], target[cut:], model)
        best = max(best, auc)
        print(f"Epoch {epoch} train {avg:.4f} auc {auc:.4f} best {best:.4f}", flush=True)


if __name__ == "__main__":
    run()
