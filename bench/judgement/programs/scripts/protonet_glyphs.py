"""Prototypical networks: few shot classification of drawn glyphs."""

import argparse
import time

import torch
import torch.nn.functional as nnf
from torch import nn

SIZE = 28


def draw_glyphs(classes, samples, seed=0):
    """Every class is a random smooth curve; its samples are warped a little. Shape (classes, samples, 1, 28, 28)."""
    gen = torch.Generator().manual_seed(seed)
    knots = torch.rand(classes, 1, 5, 2, generator=gen) * 18 + 5
    knots = knots + 0.9 * torch.randn(classes, samples, 5, 2, generator=gen)
    path = nnf.interpolate(knots.flatten(0, 1).transpose(1, 2), size=40, mode="linear", align_corners=True)
    ys, xs = torch.meshgrid(torch.arange(SIZE).float(), torch.arange(SIZE).float(), indexing="ij")
    images = torch.empty(classes * samples, 1, SIZE, SIZE)
    for chunk in torch.arange(classes * samples).split(500):
        dx = xs.flatten()[None, :, None] - path[chunk, 0][:, None, :]
        dy = ys.flatten()[None, :, None] - path[chunk, 1][:, None, :]
        nearest = (dx.square() + dy.square()).amin(dim=2)
        images[chunk] = torch.exp(-nearest / 1.5).view(-1, 1, SIZE, SIZE)
    return images.view(classes, samples, 1, SIZE, SIZE)


class EpisodeSampler:
    """Random episodes: `way` classes with `shot` support and `query` query images each."""

    def __init__(self, glyphs, way, shot, query):
        self.glyphs = glyphs
        self.way = way
        self.shot = shot
        self.query = query
        self.targets = torch.arange(way).repeat_interleave(query)

    def sample(self):
        """Support images, query images; classes in the same order."""
        classes = torch.randperm(self.glyphs.shape[0])[: self.way]
        order = torch.rand(self.way, self.glyphs.shape[1]).argsort(dim=1)[:, : self.shot + self.query]
        episode = self.glyphs[classes.unsqueeze(1), order]
        support, query = episode.split([self.shot, self.query], dim=1)
        return support.flatten(0, 1), query.flatten(0, 1)


def conv_block(inputs, outputs):
    """The usual block of few shot learning."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
    )


class ProtoNet(nn.Module):
    """Embeds support and query together and compares with the class means."""

    def __init__(self, width=32):
        super().__init__()
        self.encoder = nn.Sequential(
            conv_block(1, width), conv_block(width, width), conv_block(width, 2 * width), nn.Flatten()
        )

    def forward(self, support, query, way):
        """Logits of the queries: negative squared distances to the prototypes."""
        embedded = self.encoder(torch.cat([support, query]))
        prototypes = embedded[: len(support)].view(way, -1, embedded.shape[1]).mean(dim=1)
        queries = embedded[len(support) :]
        cross = queries @ prototypes.T
        return 2 * cross - queries.square().sum(1, keepdim=True) - prototypes.square().sum(1)


@torch.no_grad()
def evaluate(model, sampler, episodes):
    """Mean accuracy over episodes of unseen classes."""
    model.eval()
    right = 0.0
    for _ in range(episodes):
        support, query = sampler.sample()
        right += (model(support, query, sampler.way).argmax(1) == sampler.targets).float().mean().item()
    model.train()
    return right / episodes


def main():
    """Meta-train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--way", type=int, default=15)
    parser.add_argument("--shot", type=int, default=5)
    parser.add_argument("--query", type=int, default=8)
    parser.add_argument("--episodes", type=int, default=8000)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()

    torch.manual_seed(0)
    glyphs = draw_glyphs(classes=160, samples=20)
    train_sampler = EpisodeSampler(glyphs[:130], args.way, args.shot, args.query)
    test_sampler = EpisodeSampler(glyphs[130:], args.way, args.shot, args.query)
    model = ProtoNet(args.width).to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1000, gamma=0.5)

    begun = time.time()
    for episode in range(1, args.episodes + 1):
        support, query = train_sampler.sample()
        loss = nnf.cross_entropy(model(support, query, args.way), train_sampler.targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if episode % 50 == 0:
            pace = 1000 * (time.time() - begun) / episode
            print(f"episode {episode} loss {loss.item():.4f} {pace:.0f} ms", flush=True)
        if episode % 500 == 0:
            print(f"accuracy on new classes {evaluate(model, test_sampler, 10):.3f}", flush=True)


if __name__ == "__main__":
    main()
