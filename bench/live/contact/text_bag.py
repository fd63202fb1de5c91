"""Topic classifier: bag of hashed n-grams (EmbeddingBag) and a wide hidden layer."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(8)

BUCKETS = 100_000
TOPICS = 20
WORDS = 100
BATCH = 320
STEPS = 1500


def make_documents(n):
    topic = torch.randint(0, TOPICS, (n,))
    common = (torch.rand(n, WORDS).pow(4) * BUCKETS).long()
    special = topic[:, None] * 200 + torch.randint(0, 200, (n, WORDS))
    use = torch.rand(n, WORDS) < 0.15
    return torch.where(use, special, common), topic


def bigrams(words):
    left, right = words[:, :-1], words[:, 1:]
    return (left * 31337 + right) % BUCKETS


class BagModel(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.bag = nn.EmbeddingBag(BUCKETS, dim, mode="mean", sparse=True)
        self.net = nn.Sequential(nn.Linear(dim, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                                 nn.Linear(512, TOPICS))

    def forward(self, tokens):
        return self.net(self.bag(tokens))


def main():
    words, topic = make_documents(8000)
    tokens = torch.cat([words, bigrams(words)], dim=1)
    model = BagModel()
    sparse = torch.optim.SGD(model.bag.parameters(), lr=2.0)
    dense = torch.optim.AdamW(model.net.parameters(), lr=1e-3, fused=True)
    seen = correct = 0
    for step in range(1, STEPS + 1):
        pick = torch.randint(0, len(tokens), (BATCH,))
        target = topic[pick]
        scores = model(tokens[pick])
        loss = F.cross_entropy(scores, target)
        sparse.zero_grad()
        dense.zero_grad()
        loss.backward()
        sparse.step()
        dense.step()
        correct += (scores.detach().argmax(1) == target).sum().item()
        seen += BATCH
        if step % 150 == 0:
            print(f"step {step} loss {loss.item():.3f} acc {correct / seen:.3f}")
            seen = correct = 0


if __name__ == "__main__":
    main()
