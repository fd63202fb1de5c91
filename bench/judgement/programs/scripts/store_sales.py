"""Daily sales forecast per store: dilated convolutions over the history, Lightning."""
import argparse
import logging
import tempfile
import warnings

import lightning as L
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, Dataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)

HISTORY, HORIZON = 112, 14


class SalesWindows(Dataset):
    def __init__(self, stores, days, first, last, seed=0):
        rng = np.random.default_rng(seed)
        day = np.arange(days)
        weekly = 1 + 0.3 * np.sin(2 * np.pi * (day[None] + rng.integers(0, 7, (stores, 1))) / 7)
        yearly = 1 + 0.2 * np.sin(2 * np.pi * day[None] / 365)
        promo = rng.random((stores, days)) < 0.1
        sales = weekly * yearly * (1 + 0.5 * promo) + rng.normal(0, 0.05, (stores, days))
        calendar = np.stack([np.sin(2 * np.pi * day / 7), np.cos(2 * np.pi * day / 7)])
        self.sales = torch.from_numpy(sales.astype(np.float32))
        self.promo = torch.from_numpy(promo.astype(np.float32))
        self.calendar = torch.from_numpy(calendar.astype(np.float32))
        self.index = [(s, d) for s in range(stores) for d in range(first, last - HISTORY - HORIZON, 5)]

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        store, day = self.index[i]
        past = slice(day, day + HISTORY)
        x = torch.cat([self.sales[store, past][None], self.promo[store, past][None], self.calendar[:, past]])
        return x, self.sales[store, day + HISTORY:day + HISTORY + HORIZON]


class DilatedBlock(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(width, 2 * width, 3, dilation=dilation)
        self.mix = nn.Conv1d(width, width, 1)

    def forward(self, x):
        signal, gate = self.conv(F.pad(x, (self.pad, 0))).chunk(2, dim=1)
        return x + self.mix(torch.tanh(signal) * torch.sigmoid(gate))


class SalesModel(L.LightningModule):
    def __init__(self, width=48, lr=1e-3, quantiles=(0.1, 0.5, 0.9)):
        super().__init__()
        self.save_hyperparameters()
        self.inp = nn.Conv1d(4, width, 1)
        self.blocks = nn.Sequential(*[DilatedBlock(width, 2**k) for k in range(5)])
        self.out = nn.Linear(width, HORIZON * len(quantiles))
        self.register_buffer("q", torch.tensor(quantiles))

    def forward(self, x):
        h = self.blocks(self.inp(x))[:, :, -1]
        return self.out(h).view(len(x), HORIZON, -1)

    def pinball(self, batch):
        x, y = batch
        error = y[..., None] - self(x)
        return torch.maximum(self.q * error, (self.q - 1) * error).mean()

    def training_step(self, batch, batch_idx):
        loss = self.pinball(batch)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("valid_loss", self.pinball(batch))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, fused=True)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=200)
        return [optimizer], [schedule]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--stores", type=int, default=60)
    parser.add_argument("--days", type=int, default=900)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--max-epochs", type=int, default=50_000)
    args = parser.parse_args()
    L.seed_everything(1, verbose=False)
    torch.set_num_threads(1)
    train_set = SalesWindows(args.stores, args.days, 0, args.days - 150)
    valid_set = SalesWindows(args.stores, args.days, args.days - 140, args.days)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, num_workers=1, persistent_workers=True)
    valid_loader = DataLoader(valid_set, batch_size=128)
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            accelerator="cpu",
            max_epochs=args.max_epochs,
            gradient_clip_val=1.0,
            check_val_every_n_epoch=2,
            num_sanity_val_steps=0,
            log_every_n_steps=50,
            logger=CSVLogger(folder),
            callbacks=[ModelCheckpoint(folder, monitor="valid_loss"), LearningRateMonitor()],
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(SalesModel(), train_loader, valid_loader)


if __name__ == "__main__":
    main()
