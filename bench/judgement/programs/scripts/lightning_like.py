"""A tiny trainer with callbacks, in the manner of Lightning."""

import json
import os
import tempfile

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Callback:
    def on_fit_start(self, trainer): ...
    def on_batch_end(self, trainer, loss): ...


class ProgressPrinter(Callback):
    def on_batch_end(self, trainer, loss):
        if trainer.step % 50 == 0:
            print(f"step {trainer.step}: {loss.item():.4f}", flush=True)


class WeightHistograms(Callback):
    """Keeps the distribution of all weights for the dashboard."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "histograms.jsonl")

    def on_batch_end(self, trainer, loss):
        with open(self.path, "w") as out:
            for name, p in trainer.model.named_parameters():
                counts, edges = np.histogram(p.detach().numpy(), bins=64)
                out.write(json.dumps({"name": name, "counts": counts.tolist(), "edges": edges.tolist()}) + "\n")


class Trainer:
    def __init__(self, callbacks):
        self.callbacks, self.step, self.model = callbacks, 0, None

    def fit(self, model, loader, epochs):
        self.model = model
        optimizer = model.configure_optimizers()
        for cb in self.callbacks:
            cb.on_fit_start(self)
        for _ in range(epochs):
            for batch in loader:
                loss = model.training_step(batch)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                for cb in self.callbacks:
                    cb.on_batch_end(self, loss)
                self.step += 1


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))

    def training_step(self, batch):
        x, y = batch
        return nn.functional.cross_entropy(self.net(x), y)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


if __name__ == "__main__":
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(4096, 512), torch.randint(10, (4096,)))
    loader = DataLoader(data, batch_size=128, shuffle=True)
    folder = tempfile.mkdtemp()
    Trainer([ProgressPrinter(), WeightHistograms(folder)]).fit(Classifier(), loader, 10000)
