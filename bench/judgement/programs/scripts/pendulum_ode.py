"""Neural ODE for damped double pendulum trajectories, with Lightning."""
import logging
import warnings

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)

SAVES = 12
SUBSTEPS = 2
DT = 0.05


def true_field(state):
    a, b, va, vb = state.unbind(-1)
    fa = -torch.sin(a) - 0.3 * torch.sin(a - b) - 0.05 * va
    fb = -torch.sin(b) + 0.3 * torch.sin(a - b) - 0.05 * vb
    return torch.stack([va, vb, fa, fb], dim=-1)


def rk4(field, state, dt):
    k1 = field(state)
    k2 = field(state + 0.5 * dt * k1)
    k3 = field(state + 0.5 * dt * k2)
    k4 = field(state + dt * k3)
    return state + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def integrate(field, state, saves, substeps, dt):
    path = []
    for _ in range(saves):
        for _ in range(substeps):
            state = rk4(field, state, dt)
        path.append(state)
    return torch.stack(path, dim=1)


def trajectories(count, seed):
    generator = torch.Generator().manual_seed(seed)
    start = torch.randn(count, 4, generator=generator)
    path = integrate(true_field, start, SAVES, SUBSTEPS, DT)
    noise = 0.01 * torch.randn(path.shape, generator=generator)
    return TensorDataset(start, path + noise)


class PendulumODE(L.LightningModule):
    def __init__(self, hidden=96, lr=2e-3):
        super().__init__()
        self.save_hyperparameters()
        self.field = nn.Sequential(
            nn.Linear(4, hidden), nn.Tanh(),
            nn.Linear(hidden, hidden), nn.Tanh(),
            nn.Linear(hidden, 4),
        )

    def forward(self, start):
        return integrate(self.field, start, SAVES, SUBSTEPS, DT)

    def training_step(self, batch, batch_idx):
        start, path = batch
        loss = F.mse_loss(self(start), path)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        start, path = batch
        self.log("valid_loss", F.mse_loss(self(start), path))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=self.hparams.lr)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=200, gamma=0.95)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "epoch"}}


class PrintProgress(L.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_step % 50 == 0:
            print(f"step {trainer.global_step} loss {outputs['loss'].item():.5f}", flush=True)

    def on_validation_epoch_end(self, trainer, module):
        if "valid_loss" in trainer.callback_metrics:
            print(f"epoch {trainer.current_epoch} valid {trainer.callback_metrics['valid_loss'].item():.5f}", flush=True)


def main():
    L.seed_everything(9, verbose=False)
    torch.set_num_threads(1)
    train_loader = DataLoader(trajectories(12800, 1), batch_size=256, shuffle=True)
    valid_loader = DataLoader(trajectories(128, 2), batch_size=128)
    trainer = L.Trainer(
        accelerator="cpu",
        max_epochs=100_000,
        gradient_clip_val=1.0,
        detect_anomaly=True,
        check_val_every_n_epoch=5,
        num_sanity_val_steps=0,
        log_every_n_steps=50,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[PrintProgress()],
    )
    trainer.fit(PendulumODE(), train_loader, valid_loader)


if __name__ == "__main__":
    main()
