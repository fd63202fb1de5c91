"""Answers prompts with a small decoder, one batch of prompts after another."""
import torch
import torch.nn.functional as F
from torch import nn

import hermes.inside

VOCAB, DIM, HEADS, LAYERS, CONTEXT = 4000, 128, 4, 4, 256


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x, past=None):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, DIM))
        return x + self.mlp(self.norm2(x)), (k, v)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, DIM), nn.Embedding(CONTEXT, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(DIM), nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, ids, past=None):
        start = past[0][0].size(2) if past else 0
        x = self.tok(ids) + self.pos.weight[start : start + ids.size(1)]
        cache = []
        for i, block in enumerate(self.blocks):
            x, kv = block(x, past[i] if past else None)
            cache.append(kv)
        return self.head(self.norm(x[:, -1])), cache


@torch.inference_mode()
def generate(model, prompts, new_tokens=32, temperature=0.8, top_k=50):
    ids = prompts
    for _ in range(new_tokens):
        logits, _ = model(ids)
        logits = logits / temperature
        threshold = logits.topk(top_k).values[:, -1:]
        logits = logits.masked_fill(logits < threshold, float("-inf"))
        token = torch.multinomial(logits.softmax(-1), 1)
        ids = torch.cat([ids, token], 1)
    return ids


def main():
    torch.manual_seed(0)
    model = Decoder().eval()
    tokens = 0
    for request in range(1, 1_000_000):
        prompts = torch.randint(0, VOCAB, (2, 48))
        answer = generate(model, prompts)
        tokens += answer.size(1) - prompts.size(1)
        hermes.inside.step()
        if request % 20 == 0:
            print(f"{request} requests, {tokens} tokens", flush=True)


if __name__ == "__main__":
    main()
