"""Route support tickets to one of eight teams with a small BERT."""
import random
import tempfile

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)

MAX_LEN = 160
TEAMS = ["billing", "login", "shipping", "returns", "network", "hardware", "privacy", "other"]
WORDS = [f"w{i}" for i in range(3000)]


def make_tokenizer():
    vocab = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3}
    for word in TEAMS + WORDS:
        vocab[word] = len(vocab)
    raw = Tokenizer(models.WordLevel(vocab, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )


def make_tickets(count, rng):
    tickets = []
    for _ in range(count):
        label = rng.randrange(len(TEAMS))
        length = min(MAX_LEN - 10, int(rng.lognormvariate(3.2, 0.5)) + 5)
        words = rng.choices(WORDS, k=length)
        words[rng.randrange(length)] = TEAMS[label]
        tickets.append({"text": " ".join(words), "label": label})
    return tickets


class Tickets(torch.utils.data.Dataset):
    def __init__(self, tickets, tokenizer):
        encoded = tokenizer([t["text"] for t in tickets], truncation=True, max_length=MAX_LEN)
        self.input_ids = encoded["input_ids"]
        self.labels = [t["label"] for t in tickets]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {"input_ids": self.input_ids[i], "label": self.labels[i]}


class TicketCollator:
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def __call__(self, rows):
        batch = self.tokenizer.pad(
            {"input_ids": [r["input_ids"] for r in rows]},
            padding="max_length",
            max_length=MAX_LEN,
            return_tensors="pt",
        )
        batch["labels"] = torch.tensor([r["label"] for r in rows])
        return batch


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def main():
    set_seed(7)
    torch.set_num_threads(1)
    rng = random.Random(7)
    tokenizer = make_tokenizer()
    train_set = Tickets(make_tickets(4000, rng), tokenizer)
    valid_set = Tickets(make_tickets(64, rng), tokenizer)

    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=384,
        max_position_embeddings=MAX_LEN,
        num_labels=len(TEAMS),
    )
    model = BertForSequenceClassification(config)

    scratch = tempfile.TemporaryDirectory()
    training = TrainingArguments(
        output_dir=scratch.name,
        max_steps=200_000,
        per_device_train_batch_size=16,
        per_device_eval_batch_size=32,
        learning_rate=3e-4,
        warmup_steps=100,
        lr_scheduler_type="cosine",
        weight_decay=0.01,
        logging_steps=50,
        eval_strategy="steps",
        eval_steps=500,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = Trainer(
        model=model,
        args=training,
        train_dataset=train_set,
        eval_dataset=valid_set,
        data_collator=TicketCollator(tokenizer),
        compute_metrics=accuracy,
    )
    trainer.train()


if __name__ == "__main__":
    main()
