"""Embedding network for face re-identification, batch-hard triplet loss."""
import argparse
import logging

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Sampler, TensorDataset

log = logging.getLogger("face_embed")


class PeopleSampler(Sampler):
    """Batches of `people` identities with `shots` pictures each."""

    def __init__(self, labels, people, shots):
        self.by_person = [torch.nonzero(labels == p).flatten() for p in labels.unique()]
        self.people, self.shots = people, shots

    def __len__(self):
        return len(self.by_person) // self.people

    def __iter__(self):
        order = torch.randperm(len(self.by_person))
        for start in range(0, len(self) * self.people, self.people):
            batch = []
            for p in order[start:start + self.people].tolist():
                rows = self.by_person[p]
                batch += rows[torch.randperm(len(rows))[:self.shots]].tolist()
            yield batch


def batch_hard_triplet_loss(embeddings, labels, margin):
    distances = torch.cdist(embeddings, embeddings)
    losses = []
    for i in range(len(labels)):
        same = labels == labels[i]
        positive = distances[i][same].max()
        negative = distances[i][~same].min()
        losses.append(F.relu(positive - negative + margin))
    return torch.stack(losses).mean()


class EmbeddingNet(nn.Module):
    def __init__(self, width=16, dim=64):
        super().__init__()
        layers, inp = [], 3
        for out in (width, 2 * width, 4 * width):
            layers += [nn.Conv2d(inp, out, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True)]
            inp = out
        self.trunk = nn.Sequential(*layers)
        self.project = nn.Linear(inp, dim)

    def forward(self, x):
        h = self.trunk(x).mean(dim=(2, 3))
        return F.normalize(self.project(h), dim=1)


def make_faces(people, per_person, seed):
    generator = torch.Generator().manual_seed(seed)
    base = torch.rand(people, 3, 8, 8, generator=generator)
    base = F.interpolate(base, size=(32, 32), mode="bilinear")
    pictures = base.repeat_interleave(per_person, dim=0)
    pictures = pictures + 0.2 * torch.randn(pictures.shape, generator=generator)
    return pictures, torch.arange(people).repeat_interleave(per_person)


@torch.no_grad()
def nearest_neighbour_accuracy(model, pictures, labels):
    model.eval()
    embeddings = model(pictures)
    model.train()
    distances = torch.cdist(embeddings, embeddings)
    distances.fill_diagonal_(float("inf"))
    return (labels[distances.argmin(1)] == labels).float().mean().item()


def train(args):
    pictures, labels = make_faces(args.identities, 8, seed=0)
    loader = DataLoader(TensorDataset(pictures, labels), batch_sampler=PeopleSampler(labels, args.people, args.shots))
    held_out = make_faces(12, 8, seed=1)
    model = EmbeddingNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    step = 0
    for epoch in range(args.epochs):
        for images, people in loader:
            embeddings = model(images)
            loss = batch_hard_triplet_loss(embeddings, people, args.margin)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            step += 1
            if step % 25 == 0:
                log.info("epoch %d step %d triplet %.4f", epoch, step, loss.item())
            if step % 250 == 0:
                log.info("step %d rank-1 %.3f", step, nearest_neighbour_accuracy(model, *held_out))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--identities", type=int, default=320)
    parser.add_argument("--people", type=int, default=40)
    parser.add_argument("--shots", type=int, default=4)
    parser.add_argument("--margin", type=float, default=0.3)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--epochs", type=int, default=1_000_000)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    train(args)


if __name__ == "__main__":
    main()
