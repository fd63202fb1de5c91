"""Framewise phone recogniser for spoken commands (synthetic filterbank features)."""
import argparse
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

N_PHONES = 42
N_MELS = 40


def edit_distance(a, b):
    previous = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        current = [i]
        for j, y in enumerate(b, start=1):
            current.append(min(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (x != y)))
        previous = current
    return previous[-1]


def decode(logits, lengths):
    """Best phone per frame, repeats merged."""
    best = logits.argmax(-1)
    return [torch.unique_consecutive(path[:n]).tolist() for path, n in zip(best, lengths.tolist())]


def phone_error_rate(logits, lengths, references):
    wrong = total = 0
    for guess, reference in zip(decode(logits, lengths), references):
        wrong += edit_distance(reference, guess)
        total += len(reference)
    return wrong / total


class Phrases(Dataset):
    def __init__(self, count, seed):
        rng = random.Random(seed)
        generator = torch.Generator().manual_seed(seed)
        prints = torch.randn(N_PHONES, N_MELS, generator=generator)
        self.rows = []
        for _ in range(count):
            phones = rng.choices(range(N_PHONES), k=rng.randint(60, 90))
            durations = torch.tensor([rng.randint(2, 4) for _ in phones])
            labels = torch.tensor(phones).repeat_interleave(durations)
            frames = prints[labels] + 0.5 * torch.randn(len(labels), N_MELS, generator=generator)
            self.rows.append((frames, labels, phones))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    frames, labels, phones = zip(*rows)
    lengths = torch.tensor([len(f) for f in frames])
    frames = pad_sequence(frames, batch_first=True)
    return frames, pad_sequence(labels, batch_first=True, padding_value=-100), lengths, phones


class Recogniser(nn.Module):
    def __init__(self, width=72):
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv1d(N_MELS, width, 5, padding=2), nn.ReLU(),
            nn.Conv1d(width, width, 5, padding=2), nn.ReLU(),
            nn.Conv1d(width, width, 5, padding=2), nn.ReLU(),
        )
        self.out = nn.Linear(width, N_PHONES)

    def forward(self, frames):
        return self.out(self.front(frames.transpose(1, 2)).transpose(1, 2))


def train_epoch(model, loader, optimizer, epoch, log_every):
    loss_sum, per_sum, began = 0.0, 0.0, time.time()
    for i, (frames, labels, lengths, phones) in enumerate(loader, start=1):
        logits = model(frames)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        loss_sum += loss.item()
        per_sum += phone_error_rate(logits.detach(), lengths, phones)
        if i % log_every == 0:
            speed = i / (time.time() - began)
            print(f"epoch {epoch} [{i}/{len(loader)}] ce {loss_sum / i:.3f} per {per_sum / i:.3f} {speed:.1f} it/s", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=50_000)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--log-every", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(2)
    torch.set_num_threads(1)
    loader = DataLoader(Phrases(800, seed=2), batch_size=args.batch_size, shuffle=True, collate_fn=collate, drop_last=True)
    model = Recogniser()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        train_epoch(model, loader, optimizer, epoch, args.log_every)


if __name__ == "__main__":
    main()
