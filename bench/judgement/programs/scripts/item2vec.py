"""item2vec: embeddings of shop items from the baskets they were bought in, with negative sampling."""

import time

import numpy as np
import torch
import torch.nn.functional as nnf
from torch import nn

NUM_ITEMS = 30_000
NUM_TOPICS = 120
DIM = 64
NEGATIVES = 10
BATCH = 4096
STEPS = 12000
LR = 0.05


def simulate_sessions(count, rng):
    """Sessions of items; the items of a session mostly share a topic."""
    topic_of = rng.integers(NUM_TOPICS, size=NUM_ITEMS)
    by_topic = [np.flatnonzero(topic_of == topic) for topic in range(NUM_TOPICS)]
    sessions = []
    for _ in range(count):
        members = by_topic[rng.integers(NUM_TOPICS)]
        length = rng.integers(3, 12)
        # popular items first within the topic
        picks = members[(len(members) * rng.random(length) ** 2).astype(np.int64)]
        sessions.append(picks)
    return sessions


def skipgram_pairs(sessions, window=3):
    """All (center, context) pairs within the window."""
    centers, contexts = [], []
    for session in sessions:
        for shift in range(1, min(window, len(session) - 1) + 1):
            centers += [session[:-shift], session[shift:]]
            contexts += [session[shift:], session[:-shift]]
    return torch.from_numpy(np.stack([np.concatenate(centers), np.concatenate(contexts)]))


class NegativeSampler:
    """Draws items by frequency to the power of 3/4."""

    def __init__(self, counts, power=0.75):
        weights = counts.double().pow(power)
        self.cumulative = (weights.cumsum(0) / weights.sum()).float()

    def draw(self, rows, columns):
        """A matrix of item ids."""
        return torch.searchsorted(self.cumulative, torch.rand(rows, columns)).clamp_(max=NUM_ITEMS - 1)


class Item2Vec(nn.Module):
    """Two tables of factors, one for centers and one for contexts."""

    def __init__(self, num_items, dim):
        super().__init__()
        self.center = nn.Parameter(torch.randn(dim, num_items) / dim)
        self.context = nn.Parameter(torch.zeros(dim, num_items))

    def lookup(self, table, index):
        """Factors of the items in `index`, last dimension the factors."""
        return table[:, index].movedim(0, -1)

    def forward(self, center, positive, negative):
        """Logistic loss of the true context against the sampled ones."""
        query = self.lookup(self.center, center)
        target = self.lookup(self.context, torch.cat([positive.unsqueeze(1), negative], dim=1))
        scores = torch.bmm(target, query.unsqueeze(2)).squeeze(2)
        return -(nnf.logsigmoid(scores[:, 0]) + nnf.logsigmoid(-scores[:, 1:]).sum(1)).mean()

    @torch.no_grad()
    def neighbours(self, item, count=5):
        """Items with the highest cosine similarity."""
        query = self.lookup(self.center, torch.tensor([item]))[0]
        everything = self.lookup(self.center, torch.arange(self.center.shape[1]))
        return nnf.cosine_similarity(everything, query.unsqueeze(0)).topk(count + 1).indices[1:].tolist()


def main():
    """Train."""
    torch.manual_seed(5)
    rng = np.random.default_rng(5)
    pairs = skipgram_pairs(simulate_sessions(60_000, rng))
    print(f"{pairs.shape[1]} pairs")
    sampler = NegativeSampler(torch.bincount(pairs[1], minlength=NUM_ITEMS))
    model = Item2Vec(NUM_ITEMS, DIM)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR * BATCH / 64)

    begun = time.time()
    running = 0.0
    for step in range(1, STEPS + 1):
        center, positive = pairs[:, torch.randint(0, pairs.shape[1], (BATCH,))]
        negative = sampler.draw(BATCH, NEGATIVES)
        loss = model(center, positive, negative)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.item()
        if step % 100 == 0:
            print(f"step {step} loss {running / 100:.4f} {step / (time.time() - begun):.1f} it/s", flush=True)
            running = 0.0
        if step % 1000 == 0:
            print("neighbours of item 0:", model.neighbours(0), flush=True)


if __name__ == "__main__":
    main()
