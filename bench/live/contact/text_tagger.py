"""BiLSTM tagger over a made-up language, with a running confusion matrix."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(21)

VOCAB, TAGS = 3000, 12
LENGTH, BATCH = 40, 32
STEPS = 1000


def make_corpus(n):
    words = (torch.rand(n, LENGTH).pow(3) * VOCAB).long()
    base = torch.randint(0, TAGS, (VOCAB,))
    previous = torch.roll(words, 1, dims=1)
    previous[:, 0] = 0
    tags = (base[words] + (base[previous] > TAGS // 2).long()) % TAGS
    return words, tags


class Tagger(nn.Module):
    def __init__(self, dim=96, hidden=112):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim)
        self.drop = nn.Dropout(0.1)
        self.rnn = nn.LSTM(dim, hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, TAGS)

    def forward(self, words):
        h, _ = self.rnn(self.drop(self.emb(words)))
        return self.out(self.drop(h))


class Metrics:
    def __init__(self):
        self.confusion = torch.zeros(TAGS, TAGS, dtype=torch.long)

    def add(self, tags, predicted):
        for t, p in zip(tags.view(-1), predicted.view(-1)):
            self.confusion[t, p] += 1

    def report(self):
        c = self.confusion.float()
        recall = c.diag() / c.sum(1).clamp(min=1)
        precision = c.diag() / c.sum(0).clamp(min=1)
        f1 = 2 * recall * precision / (recall + precision).clamp(min=1e-6)
        self.confusion.zero_()
        return f1.mean().item()


def main():
    words, tags = make_corpus(4000)
    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)
    metrics = Metrics()
    for step in range(1, STEPS + 1):
        pick = torch.randint(0, len(words), (BATCH,))
        w, t = words[pick], tags[pick]
        scores = model(w)
        loss = F.cross_entropy(scores.flatten(0, 1), t.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        metrics.add(t, scores.detach().argmax(-1))
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.3f} macro-F1 {metrics.report():.3f}")


if __name__ == "__main__":
    main()
