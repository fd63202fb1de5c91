"""Character language model: a small decoder-only transformer."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(4)

CONTEXT, BATCH = 128, 8
DIM, HEADS, LAYERS = 128, 4, 3
STEPS = 600


def make_text(n=400_000):
    words = ["".join(chr(97 + c) for c in torch.randint(0, 26, (k,)).tolist())
             for k in torch.randint(2, 8, (300,)).tolist()]
    pick = (torch.rand(n // 5).pow(2) * len(words)).long().tolist()
    text = " ".join(words[i] for i in pick)
    return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8).long()


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.proj = nn.Linear(DIM, DIM)
        self.ff = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, DIM))
        return x + self.ff(self.n2(x))


class CharLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(128, DIM)
        self.pos = nn.Parameter(0.02 * torch.randn(CONTEXT, DIM))
        self.layers = nn.Sequential(*[Layer() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(DIM)
        self.out = nn.Linear(DIM, 128)

    def forward(self, idx):
        x = self.tok(idx) + self.pos
        return self.out(self.norm(self.layers(x)))


def main():
    text = make_text()
    offsets = torch.arange(CONTEXT + 1)
    model = CharLM()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for step in range(STEPS):
        starts = torch.randint(0, len(text) - CONTEXT - 1, (BATCH, 1))
        chunk = text[starts + offsets]
        logits = model(chunk[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), chunk[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
