"""Policy-gradient fine-tuning of a small language model: sample, score, update."""
from __future__ import annotations

import torch
from torch.nn import functional as F
from transformers import GPT2Config, GPT2LMHeadModel

PROMPT, NEW, BATCH, VOCAB = 80, 12, 4, 600
KL = 0.05


def make_policy() -> GPT2LMHeadModel:
    config = GPT2Config(
        vocab_size=VOCAB, n_positions=128, n_embd=128, n_layer=3, n_head=4,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
    )
    return GPT2LMHeadModel(config)


@torch.no_grad()
def sample(policy, prompts, new_tokens, temperature=1.0):
    """Continue the prompts."""
    tokens = prompts
    for _ in range(new_tokens):
        logits = policy(input_ids=tokens, use_cache=False).logits[:, -1] / temperature
        nxt = torch.multinomial(logits.softmax(-1), 1)
        tokens = torch.cat([tokens, nxt], dim=1)
    return tokens


def reward(tokens):
    """Likes continuations that count upwards."""
    new = tokens[:, -NEW - 1 :]
    return (new[:, 1:] > new[:, :-1]).float().mean(1)


def token_logprobs(model, tokens):
    logits = model(input_ids=tokens, use_cache=False).logits[:, PROMPT - 1 : -1]
    return F.log_softmax(logits, -1).gather(2, tokens[:, PROMPT:].unsqueeze(2)).squeeze(2)


class Baseline:
    def __init__(self, momentum: float = 0.95):
        self.value, self.momentum = 0.0, momentum

    def __call__(self, r):
        advantage = r - self.value
        self.value = self.momentum * self.value + (1 - self.momentum) * r.mean().item()
        return advantage


def main() -> None:
    torch.manual_seed(0)
    policy = make_policy()
    reference = make_policy()
    reference.load_state_dict(policy.state_dict())
    reference.eval().requires_grad_(False)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-4)
    baseline = Baseline()
    prompts = torch.randint(0, VOCAB, (512, PROMPT))

    for step in range(10_000_000):
        chosen = prompts[torch.randint(0, len(prompts), (BATCH,))]
        policy.eval()
        tokens = sample(policy, chosen, NEW)
        policy.train()
        r = reward(tokens)
        advantage = baseline(r)
        logp = token_logprobs(policy, tokens)
        with torch.no_grad():
            ref = token_logprobs(reference, tokens)
        kl = (logp - ref).mean()
        loss = -(advantage.unsqueeze(1) * logp).mean() + KL * kl
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step} reward {r.mean():.3f} kl {kl.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
