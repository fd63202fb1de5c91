"""Tune a tiny reply model with REINFORCE against a toy reward."""
import logging

import torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
log = logging.getLogger("reply")

VOCAB = 800
EOS = 0
PROMPT_LEN = 56
REPLY_LEN = 16
BATCH = 6
KL_WEIGHT = 0.05


def build_model():
    config = GPT2Config(
        vocab_size=VOCAB,
        n_positions=128,
        n_embd=128,
        n_layer=2,
        n_head=4,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=EOS,
        eos_token_id=EOS,
        pad_token_id=EOS,
    )
    return GPT2LMHeadModel(config)


def prompts(generator):
    return torch.randint(1, VOCAB, (BATCH, PROMPT_LEN), generator=generator)


def reward(query, reply):
    """Replies should repeat words of the prompt but not be monotonous."""
    overlap = (reply[:, :, None] == query[:, None, :]).any(-1).float().mean(1)
    repeated = (reply[:, 1:] == reply[:, :-1]).float().mean(1)
    small_words = (reply < VOCAB // 4).float().mean(1)
    return overlap + 0.5 * small_words - repeated


def reply_logprobs(model, tokens):
    logits = model(input_ids=tokens, attention_mask=torch.ones_like(tokens)).logits
    logits = logits[:, PROMPT_LEN - 1:-1]
    logprobs = F.log_softmax(logits, dim=-1)
    return logprobs.gather(-1, tokens[:, PROMPT_LEN:, None]).squeeze(-1)


class ReplyTrainer:
    def __init__(self):
        self.policy = build_model()
        self.reference = build_model().eval()
        self.reference.load_state_dict(self.policy.state_dict())
        self.reference.requires_grad_(False)
        self.optimizer = torch.optim.AdamW(self.policy.parameters(), lr=3e-4)
        self.generator = torch.Generator().manual_seed(5)
        self.baseline = 0.0

    @torch.no_grad()
    def rollout(self, query):
        self.policy.eval()
        tokens = self.policy.generate(
            input_ids=query,
            attention_mask=torch.ones_like(query),
            do_sample=True,
            top_k=0,
            min_new_tokens=REPLY_LEN,
            max_new_tokens=REPLY_LEN,
            pad_token_id=EOS,
            use_cache=False,
        )
        self.policy.train()
        return tokens

    def step(self):
        query = prompts(self.generator)
        tokens = self.rollout(query)
        score = reward(query, tokens[:, PROMPT_LEN:])
        with torch.no_grad():
            anchor = reply_logprobs(self.reference, tokens)
        logprobs = reply_logprobs(self.policy, tokens)
        kl = (logprobs - anchor).sum(1)
        advantage = score - KL_WEIGHT * kl.detach() - self.baseline
        loss = -(advantage * logprobs.sum(1)).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.policy.parameters(), 1.0)
        self.optimizer.step()
        mean = score.mean().item()
        self.baseline = 0.95 * self.baseline + 0.05 * mean
        return loss.item(), mean, kl.mean().item()


def main():
    torch.manual_seed(5)
    torch.set_num_threads(1)
    trainer = ReplyTrainer()
    for step in range(1, 1_000_000):
        loss, score, kl = trainer.step()
        if step % 20 == 0:
            log.info("step %d loss %.3f reward %.3f kl %.3f", step, loss, score, kl)


if __name__ == "__main__":
    main()
