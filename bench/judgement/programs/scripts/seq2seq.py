"""Copies sequences with an encoder and a decoder of LSTM cells."""

import torch
from torch import nn

VOCAB, LENGTH, BATCH = 200, 100, 64


class Decoder(nn.Module):
    def __init__(self, dim=96):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim)
        self.cell = nn.LSTMCell(dim, dim)
        self.att = nn.Linear(dim, dim)
        self.out = nn.Linear(2 * dim, VOCAB)

    def forward(self, memory, targets):
        b = targets.size(0)
        h = c = memory.new_zeros(b, memory.size(2))
        logits = memory.new_zeros(b, 0, VOCAB)
        token = targets.new_zeros(b)
        for t in range(targets.size(1)):
            h, c = self.cell(self.emb(token), (h, c))
            weights = (memory @ self.att(h).unsqueeze(2)).softmax(1)
            context = (weights * memory).sum(1)
            step = self.out(torch.cat([h, context], 1)).unsqueeze(1)
            logits = torch.cat([logits, step], dim=1)
            token = targets[:, t]
        return logits


class Seq2Seq(nn.Module):
    def __init__(self, dim=96):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim)
        self.enc = nn.LSTM(dim, dim, batch_first=True)
        self.dec = Decoder(dim)

    def forward(self, x):
        memory, _ = self.enc(self.emb(x))
        return self.dec(memory, x)


def main():
    torch.manual_seed(0)
    model = Seq2Seq()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(100000):
        x = torch.randint(VOCAB, (BATCH, LENGTH))
        logits = model(x)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), x.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0:
            print(step, loss.item(), flush=True)


if __name__ == "__main__":
    main()
