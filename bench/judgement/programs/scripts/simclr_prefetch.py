"""SimCLR on small images, augmented by a background thread."""

import queue
import threading
import time

import numpy as np
import torch
import torch.nn.functional as nnf
from torch import nn

SIZE = 24
BATCH = 96
STEPS = 5000
TEMPERATURE = 0.2


def textures(count, seed=0):
    """Unlabelled images of stripes and blobs as uint8."""
    rng = np.random.default_rng(seed)
    ys, xs = np.mgrid[0:32, 0:32] / 32.0
    images = np.empty((count, 3, 32, 32), dtype=np.uint8)
    for number in range(count):
        angle, freq = rng.uniform(0, np.pi), rng.uniform(3, 12)
        wave = np.sin(2 * np.pi * freq * (xs * np.cos(angle) + ys * np.sin(angle)))
        blob = np.exp(-((xs - rng.random()) ** 2 + (ys - rng.random()) ** 2) / rng.uniform(0.01, 0.1))
        mix = rng.random((3, 2))
        image = mix[:, 0, None, None] * wave + mix[:, 1, None, None] * blob
        images[number] = np.clip(128 + 90 * image, 0, 255)
    return images


def random_view(images, rng):
    """Crop, flip, brightness and contrast for a batch."""
    count = len(images)
    top, left = rng.integers(0, 32 - SIZE + 1, (2, count))
    rows = top[:, None] + np.arange(SIZE)
    columns = left[:, None] + np.arange(SIZE)
    flip = rng.random(count) < 0.5
    columns[flip] = columns[flip, ::-1]
    view = images[np.arange(count)[:, None, None], :, rows[:, :, None], columns[:, None, :]]
    view = view.astype(np.float32).transpose(0, 3, 1, 2) / 255.0
    contrast = rng.uniform(0.6, 1.4, (count, 1, 1, 1)).astype(np.float32)
    brightness = rng.uniform(-0.2, 0.2, (count, 3, 1, 1)).astype(np.float32)
    return np.ascontiguousarray((view - 0.5) * contrast + brightness)


class ViewPrefetcher:
    """Makes pairs of views ahead of the training loop."""

    def __init__(self, images, batch_size, depth=4):
        self.images = images
        self.batch_size = batch_size
        self.ready = queue.Queue(maxsize=depth)
        self.stopped = False
        self.thread = threading.Thread(target=self.produce, daemon=True)
        self.thread.start()

    def produce(self):
        """Fill the queue until stopped."""
        rng = np.random.default_rng(1)
        while not self.stopped:
            if self.ready.full():
                time.sleep(0)
                continue
            chosen = self.images[rng.integers(0, len(self.images), self.batch_size)]
            self.ready.put((random_view(chosen, rng), random_view(chosen, rng)))

    def __iter__(self):
        while True:
            first, second = self.ready.get()
            yield torch.from_numpy(first), torch.from_numpy(second)

    def stop(self):
        """End the thread."""
        self.stopped = True


class Encoder(nn.Module):
    """Convolutional encoder with a projection head."""

    def __init__(self, width=32, out=64):
        super().__init__()
        layers, inputs = [], 3
        for outputs, stride in ((width, 1), (2 * width, 2), (3 * width, 2), (4 * width, 2)):
            layers += [nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)]
            layers += [nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
            inputs = outputs
        self.backbone = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.projection = nn.Sequential(nn.Linear(inputs, inputs), nn.ReLU(inplace=True), nn.Linear(inputs, out))

    def forward(self, x):
        """Unit vectors."""
        return nnf.normalize(self.projection(self.backbone(x)), dim=1)


def nt_xent(first, second):
    """Normalised temperature scaled cross entropy over both directions."""
    both = torch.cat([first, second])
    similarity = both @ both.T / TEMPERATURE
    similarity.fill_diagonal_(float("-inf"))
    count = len(first)
    positives = torch.cat([torch.arange(count, 2 * count), torch.arange(count)])
    return nnf.cross_entropy(similarity, positives)


def main():
    """Train."""
    torch.manual_seed(0)
    prefetcher = ViewPrefetcher(textures(3000), BATCH)
    model = Encoder().to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    begun = time.time()
    for step, (first, second) in enumerate(prefetcher, 1):
        embedded = model(torch.cat([first, second]))
        loss = nt_xent(*embedded.chunk(2))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 50 == 0:
            pace = (time.time() - begun) / step
            print(f"step {step} loss {loss.item():.4f} {1000 * pace:.0f} ms", flush=True)
        if step == STEPS:
            break
    prefetcher.stop()


if __name__ == "__main__":
    main()
