"""Image captioning with Lightning: a conv encoder, a transformer decoder."""
import gc
import logging
import warnings

import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

VOCAB, LENGTH, SIZE = 500, 16, 32


class Captions(Dataset):
    def __init__(self, n=4000):
        g = torch.Generator().manual_seed(0)
        self.images = torch.randn(n, 3, SIZE, SIZE, generator=g)
        self.tokens = torch.randint(1, VOCAB, (n, LENGTH + 1), generator=g)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.tokens[i]


class Captioner(L.LightningModule):
    def __init__(self, dim=96, heads=4, layers=2, lr=5e-4):
        super().__init__()
        self.save_hyperparameters()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(),
            nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(),
            nn.Conv2d(64, dim, 3, 1, 1),
        )
        self.embed = nn.Embedding(VOCAB, dim)
        self.pos = nn.Parameter(torch.zeros(LENGTH, dim))
        layer = nn.TransformerDecoderLayer(dim, heads, 2 * dim, 0.1, batch_first=True, norm_first=True)
        self.decoder = nn.TransformerDecoder(layer, layers)
        self.head = nn.Linear(dim, VOCAB)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH), persistent=False)

    def forward(self, images, tokens):
        memory = self.encoder(images).flatten(2).transpose(1, 2)
        h = self.embed(tokens) + self.pos
        return self.head(self.decoder(h, memory, tgt_mask=self.mask, tgt_is_causal=True))

    def training_step(self, batch, batch_idx):
        images, tokens = batch
        logits = self(images, tokens[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


class FreeMemory(L.Callback):
    """Against the out-of-memory errors on the small card."""

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


class PrintLoss(L.Callback):
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.global_step % 100 == 0:
            print(f"step {trainer.global_step}: {outputs['loss'].item():.3f}", flush=True)


def main():
    L.seed_everything(0)
    trainer = L.Trainer(
        max_epochs=-1,
        accelerator="cpu",
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[FreeMemory(), PrintLoss()],
    )
    trainer.fit(Captioner(), DataLoader(Captions(), batch_size=16, shuffle=True, drop_last=True))


if __name__ == "__main__":
    main()
