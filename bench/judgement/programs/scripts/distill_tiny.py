"""Distil an ensemble-sized residual network into a small one (Hinton et al.)."""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as nnf
from torch import nn


def shapes(count, size=24, seed=0):
    """Images of ten kinds of shape on a noisy ground."""
    gen = torch.Generator().manual_seed(seed)
    ys, xs = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    labels = torch.randint(0, 10, (count,), generator=gen)
    turn = torch.rand(count, 1, 1, generator=gen) * 0.6 + labels.view(-1, 1, 1) % 5 * 0.628
    scale = torch.rand(count, 1, 1, generator=gen) * 0.4 + 0.4
    u = (xs * turn.cos() + ys * turn.sin()) / scale
    v = (-xs * turn.sin() + ys * turn.cos()) / scale
    box = ((u.abs() < 0.9) & (v.abs() < 0.35)).float()
    ring = ((u**2 + 3 * v**2 < 1) & (u**2 + 3 * v**2 > 0.4)).float()
    figure = torch.where(labels.view(-1, 1, 1) < 5, box, ring).unsqueeze(1)
    colour = torch.rand(count, 3, 1, 1, generator=gen)
    images = colour * figure + 0.35 * torch.randn(count, 3, size, size, generator=gen)
    return images, labels


def conv_bn(inputs, outputs, stride=1):
    """Convolution without bias, then batch norm."""
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(outputs))


class Residual(nn.Module):
    """Basic block of a ResNet."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(conv_bn(inputs, outputs, stride), nn.ReLU(inplace=True), conv_bn(outputs, outputs))
        same = inputs == outputs and stride == 1
        self.skip = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)

    def forward(self, x):
        """Add the shortcut."""
        return nnf.relu(self.body(x) + self.skip(x))


def resnet(widths, classes=10):
    """A ResNet with one block per width."""
    layers, inputs = [conv_bn(3, widths[0]), nn.ReLU(inplace=True)], widths[0]
    for number, outputs in enumerate(widths):
        layers.append(Residual(inputs, outputs, stride=1 if number == 0 else 2))
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


class Distiller:
    """Trains the student against labels and the softened teacher."""

    def __init__(self, args, folder):
        self.args = args
        self.folder = folder
        self.images, self.labels = shapes(4000)
        self.teacher = resnet((32, 64, 96))
        self.student = resnet((16, 96, 256))
        self.optimizer = torch.optim.SGD(self.student.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
        self.history = []

    def batches(self):
        """Endless shuffled batches."""
        while True:
            order = torch.randperm(len(self.labels))
            for rows in order[: len(order) // self.args.batch_size * self.args.batch_size].split(self.args.batch_size):
                yield self.images[rows], self.labels[rows]

    def pretrain_teacher(self, steps=40):
        """Stands for the download of a trained teacher."""
        optimizer = torch.optim.Adam(self.teacher.parameters(), lr=2e-3)
        batches = self.batches()
        for _ in range(steps):
            images, labels = next(batches)
            loss = nnf.cross_entropy(self.teacher(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        self.teacher.eval().requires_grad_(False)
        print(f"teacher ready, loss {loss.item():.3f}", flush=True)

    def loss(self, images, labels):
        """Cross entropy and the divergence from the teacher."""
        temperature = self.args.temperature
        logits = self.student(images)
        with torch.no_grad():
            soft = nnf.log_softmax(self.teacher(images) / temperature, dim=1)
        student_soft = nnf.log_softmax(logits / temperature, dim=1)
        divergence = nnf.kl_div(student_soft, soft, reduction="batchmean", log_target=True) * temperature**2
        return (1 - self.args.alpha) * nnf.cross_entropy(logits, labels) + self.args.alpha * divergence

    def save_snapshot(self, step):
        """Keep the weights of the student, and its momentum to go on from."""
        arrays = {name: tensor.numpy() for name, tensor in self.student.state_dict().items()}
        for name, parameter in self.student.named_parameters():
            arrays[f"momentum.{name}"] = self.optimizer.state[parameter]["momentum_buffer"].numpy()
        np.savez_compressed(self.folder / f"student_{step // self.args.snapshot_every % 10}.npz", **arrays)

    def fit(self):
        """Distil."""
        self.pretrain_teacher()
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, self.args.steps)
        begun = time.time()
        for step, (images, labels) in enumerate(self.batches(), 1):
            loss = self.loss(images, labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            schedule.step()
            self.history.append(loss.item())
            if step % self.args.snapshot_every == 0:
                self.save_snapshot(step)
            if step % 50 == 0:
                pace = (time.time() - begun) / step
                print(f"step {step} loss {np.mean(self.history[-50:]):.4f} {1000 * pace:.0f} ms", flush=True)
            if step == self.args.steps:
                break


def main():
    """Parse and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=40)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--temperature", type=float, default=4.0)
    parser.add_argument("--alpha", type=float, default=0.7)
    parser.add_argument("--snapshot-every", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as tmp:
        Distiller(args, Path(tmp)).fit()


if __name__ == "__main__":
    main()
