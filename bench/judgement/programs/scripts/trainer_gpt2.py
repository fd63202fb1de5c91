"""Continue pre-training of a small GPT-2 on our tickets with the Hugging Face Trainer."""
import tempfile
import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed


class PackedTickets(Dataset):
    """Token blocks, packed: no padding. Tokenised once, beforehand."""

    def __init__(self, blocks: int = 4096, length: int = 64, vocab: int = 2000):
        gen = torch.Generator().manual_seed(42)
        start = torch.randint(0, vocab, (blocks, 1), generator=gen)
        stride = torch.randint(1, 13, (blocks, 1), generator=gen)
        self.ids = (start + stride * torch.arange(length)) % vocab

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


def build_model() -> GPT2LMHeadModel:
    config = GPT2Config(
        vocab_size=2000, n_positions=128, n_embd=128, n_layer=6, n_head=4,
        bos_token_id=0, eos_token_id=0, use_cache=False,
    )
    return GPT2LMHeadModel(config)


def main() -> None:
    set_seed(1)
    with tempfile.TemporaryDirectory() as out:
        arguments = TrainingArguments(
            output_dir=out,
            per_device_train_batch_size=8,
            learning_rate=3e-4,
            warmup_steps=100,
            lr_scheduler_type="cosine",
            weight_decay=0.01,
            max_steps=2_000_000,
            gradient_checkpointing=True,
            logging_steps=100,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            dataloader_num_workers=0,
        )
        trainer = Trainer(model=build_model(), args=arguments, train_dataset=PackedTickets())
        trainer.train()


if __name__ == "__main__":
    main()
