"""Translates sentences with an encoder and a decoder of transformer layers, label smoothing."""
import torch
import torch.nn.functional as F
from torch import nn

VOCAB, DIM, PAD = 12000, 64, 0


class Translator(nn.Module):
    def __init__(self, layers=2, heads=4):
        super().__init__()
        self.source, self.target = nn.Embedding(VOCAB, DIM), nn.Embedding(VOCAB, DIM)
        self.position = nn.Parameter(torch.randn(64, DIM) * 0.02)
        self.transformer = nn.Transformer(DIM, heads, layers, layers, 4 * DIM, batch_first=True)
        self.out = nn.Linear(DIM, VOCAB)

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.size(1))
        s = self.source(source) + self.position[: source.size(1)]
        t = self.target(target) + self.position[: target.size(1)]
        return self.out(self.transformer(s, t, tgt_mask=mask, tgt_is_causal=True))


def smoothed_loss(logits, target):
    return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD, label_smoothing=0.1)


def batch_accuracy(model, source, target):
    predicted = model(source, target[:, :-1]).argmax(-1)
    wanted = target[:, 1:]
    keep = wanted != PAD
    return ((predicted == wanted) & keep).sum().item() / keep.sum().item()


def sentences(batch=8):
    g = torch.Generator().manual_seed(0)
    while True:
        length = int(torch.randint(18, 25, (), generator=g))
        source = torch.randint(1, VOCAB, (batch, length), generator=g)
        target = (source.flip(1) * 7 + 1) % VOCAB
        yield source, F.pad(target, (1, 0), value=1)


def noam(step, warmup=400):
    step = max(step, 1)
    return DIM ** -0.5 * min(step ** -0.5, step * warmup ** -1.5)


def main():
    torch.manual_seed(0)
    model = Translator()
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, noam)
    tokens, accuracy = 0, 0.0
    for step, (source, target) in enumerate(sentences(), 1):
        logits = model(source, target[:, :-1])
        loss = smoothed_loss(logits, target[:, 1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        scheduler.step()
        tokens += target.numel()
        accuracy = 0.98 * accuracy + 0.02 * batch_accuracy(model, source, target)
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f} accuracy {accuracy:.3f} tokens {tokens}", flush=True)


if __name__ == "__main__":
    main()
