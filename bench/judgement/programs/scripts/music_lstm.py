"""Next-note prediction on synthetic folk tunes with a stacked LSTM."""
import random

import torch
from torch import nn

NOTES = 64
SEQ = 48
BATCH = 16
SCALES = ([0, 2, 4, 5, 7, 9, 11], [0, 2, 3, 5, 7, 8, 10], [0, 2, 4, 7, 9])


def compose(length, rnd):
    scale, root = rnd.choice(SCALES), rnd.randrange(12)
    degree, tune = rnd.randrange(12), []
    for _ in range(length):
        degree = min(24, max(0, degree + rnd.choice((-2, -1, -1, 0, 1, 1, 2))))
        octave, step = divmod(degree, len(scale))
        tune.append(min(NOTES - 1, root + 12 * octave + scale[step]))
    return tune


def corpus(n=1500, seed=1):
    rnd = random.Random(seed)
    return torch.tensor([compose(SEQ + 1, rnd) for _ in range(n)])


class StackedLSTM(nn.Module):
    def __init__(self, dim, hidden, layers, dropout):
        super().__init__()
        self.hidden = hidden
        self.cells = nn.ModuleList(nn.LSTMCell(dim if i == 0 else hidden, hidden) for i in range(layers))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        b, length, _ = x.shape
        h = [x.new_zeros(b, self.hidden) for _ in self.cells]
        c = [x.new_zeros(b, self.hidden) for _ in self.cells]
        outputs = []
        for t in range(length):
            inp = x[:, t]
            for i, cell in enumerate(self.cells):
                h[i], c[i] = cell(inp, (h[i], c[i]))
                inp = self.dropout(h[i])
            outputs.append(inp)
        return torch.stack(outputs, 1)


class NoteModel(nn.Module):
    def __init__(self, dim=64, hidden=128, layers=2):
        super().__init__()
        self.embed = nn.Embedding(NOTES, dim)
        self.rnn = StackedLSTM(dim, hidden, layers, 0.2)
        self.out = nn.Linear(hidden, NOTES)

    def forward(self, notes):
        return self.out(self.rnn(self.embed(notes)))


if __name__ == "__main__":
    torch.manual_seed(0)
    tunes = corpus()
    model = NoteModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9999)
    loss_fn = nn.CrossEntropyLoss()
    step = 0
    while step < 50_000_000:
        order = torch.randperm(len(tunes))
        for chunk in order.split(BATCH):
            batch = tunes[chunk]
            logits = model(batch[:, :-1])
            loss = loss_fn(logits.flatten(0, 1), batch[:, 1:].flatten())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            if step % 100 == 0:
                print(f"step {step}  nll {loss.item():.3f}", flush=True)
            step += 1
