"""Fine-tune a small BERT to route support tickets, with the Trainer of transformers."""

import random
import tempfile

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)

MAX_LENGTH = 128
QUEUES = {
    "billing": "invoice charge refund card payment receipt subscription price cancel renew tax amount",
    "login": "password reset account locked email code verify sign session expired username token",
    "shipping": "parcel delivery late courier address tracking customs package damaged return warehouse",
    "bug": "crash error screen freezes update version button export import sync log slow",
    "feature": "would like option dark mode integrate calendar support add setting allow shortcut",
}
FILLER = (
    "hello hi i we my our the a an is are was has have not can could please help with for on in of to and but "
    "since yesterday today after before again still when trying it this that there thanks regards team customer"
)


def write_ticket(rng):
    """One ticket and the number of its queue."""
    label = rng.randrange(len(QUEUES))
    words, filler = list(QUEUES.values())[label].split(), FILLER.split()
    length = max(6, int(rng.lognormvariate(3.0, 0.45)))
    text = [rng.choice(words) if rng.random() < 0.2 else rng.choice(filler) for _ in range(length)]
    return " ".join(text), label


class TicketDataset(Dataset):
    """Raw texts with labels."""

    def __init__(self, count, seed):
        rng = random.Random(seed)
        self.rows = [write_ticket(rng) for _ in range(count)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        text, label = self.rows[index]
        return {"text": text, "label": label}


def build_tokenizer(texts):
    """A small WordPiece tokenizer trained on the tickets."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=800, special_tokens=special))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[("[CLS]", tokenizer.token_to_id("[CLS]")), ("[SEP]", tokenizer.token_to_id("[SEP]"))],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )


class TicketCollator:
    """Tokenize the texts of a batch."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def __call__(self, rows):
        """Tensors of a batch."""
        batch = self.tokenizer(
            [row["text"] for row in rows],
            padding="max_length",
            truncation=True,
            max_length=MAX_LENGTH,
            return_tensors="pt",
        )
        batch["labels"] = torch.tensor([row["label"] for row in rows])
        return batch


def accuracy(prediction):
    """Share of the tickets in the right queue."""
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def main():
    """Train and evaluate."""
    set_seed(7)
    train_set, eval_set = TicketDataset(20_000, seed=1), TicketDataset(400, seed=2)
    tokenizer = build_tokenizer(text for text, _ in train_set.rows)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=512,
        max_position_embeddings=MAX_LENGTH,
        num_labels=len(QUEUES),
        pad_token_id=tokenizer.pad_token_id,
    )
    with tempfile.TemporaryDirectory() as output:
        args = TrainingArguments(
            output_dir=output,
            per_device_train_batch_size=16,
            per_device_eval_batch_size=64,
            num_train_epochs=6,
            learning_rate=3e-4,
            warmup_steps=100,
            weight_decay=0.01,
            logging_steps=50,
            save_strategy="no",
            eval_strategy="epoch",
            remove_unused_columns=False,
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = Trainer(
            model=BertForSequenceClassification(config),
            args=args,
            train_dataset=train_set,
            eval_dataset=eval_set,
            data_collator=TicketCollator(tokenizer),
            compute_metrics=accuracy,
        )
        trainer.train()


if __name__ == "__main__":
    main()
