"""Keyword recognition: log-mel spectrograms of one second crops and a small CNN."""

import math
import tempfile
import time
import wave
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SAMPLE_RATE = 16_000
N_FFT = 512
HOP = 160
N_MELS = 64
CLASSES = 12
CLIP_SECONDS = 1.0
RECORDING_SECONDS = 12


def write_recordings(folder, count, seed=0):
    """Write recordings with a keyword somewhere in each second; return (path, start second, label)."""
    rng = np.random.default_rng(seed)
    labelled = []
    for number in range(count):
        path = folder / f"rec_{number:04d}.wav"
        time_axis = np.arange(SAMPLE_RATE) / SAMPLE_RATE
        pieces = []
        for second in range(RECORDING_SECONDS):
            label = int(rng.integers(CLASSES))
            base = 180 * 1.22**label
            tone = np.sin(2 * np.pi * base * time_axis * (1 + 0.05 * rng.standard_normal()))
            tone += 0.5 * np.sin(2 * np.pi * base * 2.5 * time_axis)
            envelope = np.exp(-(((time_axis - rng.uniform(0.3, 0.7)) / 0.15) ** 2))
            pieces.append(0.3 * tone * envelope + 0.05 * rng.standard_normal(SAMPLE_RATE))
            labelled.append((path, float(second), label))
        samples = np.clip(np.concatenate(pieces) * 32767, -32768, 32767).astype(np.int16)
        with wave.open(str(path), "wb") as out:
            out.setnchannels(1)
            out.setsampwidth(2)
            out.setframerate(SAMPLE_RATE)
            out.writeframes(samples.tobytes())
    return labelled


def mel_filters():
    """Triangular filters on the mel scale, one row per band."""

    def to_mel(hertz):
        return 2595.0 * math.log10(1.0 + hertz / 700.0)

    edges = torch.linspace(to_mel(20.0), to_mel(SAMPLE_RATE / 2), N_MELS + 2)
    hertz = 700.0 * (10.0 ** (edges / 2595.0) - 1.0)
    bins = torch.linspace(0, SAMPLE_RATE / 2, N_FFT // 2 + 1)
    rising = (bins - hertz[:-2, None]) / (hertz[1:-1] - hertz[:-2])[:, None]
    falling = (hertz[2:, None] - bins) / (hertz[2:] - hertz[1:-1])[:, None]
    return torch.minimum(rising, falling).clamp_(min=0)


class LogMel:
    """Waveform to log-mel spectrogram."""

    def __init__(self):
        self.window = torch.hann_window(N_FFT)
        self.filters = mel_filters()

    def __call__(self, wav):
        """Transform a waveform."""
        spec = torch.stft(wav, N_FFT, HOP, window=self.window, return_complex=True)
        power = spec.real.square() + spec.imag.square()
        return (self.filters @ power).clamp_(min=1e-6).log_()


class KeywordDataset(Dataset):
    """Crops of one second around the annotated keywords."""

    def __init__(self, labelled, jitter=0.1):
        self.labelled = labelled
        self.jitter = jitter
        self.logmel = LogMel()
        self.frames = int(CLIP_SECONDS * SAMPLE_RATE / HOP)

    def __len__(self):
        return len(self.labelled)

    def load_clip(self, path, begin):
        """Features of the clip that begins at `begin` seconds."""
        with wave.open(str(path), "rb") as source:
            raw = source.readframes(source.getnframes())
        wav = torch.from_numpy(np.frombuffer(raw, dtype=np.int16).astype(np.float32) / 32768.0)
        features = self.logmel(wav)
        first = int(begin * SAMPLE_RATE / HOP)
        return features[:, first : first + self.frames]

    def __getitem__(self, index):
        path, second, label = self.labelled[index]
        shift = (torch.rand(()).item() * 2 - 1) * self.jitter
        begin = min(max(second + shift, 0.0), RECORDING_SECONDS - CLIP_SECONDS)
        features = self.load_clip(path, begin)
        return (features - features.mean()) / (features.std() + 1e-5), label


class SpecAugment(nn.Module):
    """Mask a band of frequencies and a stretch of time per batch."""

    def __init__(self, freq=8, frames=12):
        super().__init__()
        self.freq = freq
        self.frames = frames

    def forward(self, x):
        """Zero one band and one stretch."""
        f0 = int(torch.randint(0, x.shape[2] - self.freq, ()))
        t0 = int(torch.randint(0, x.shape[3] - self.frames, ()))
        x[:, :, f0 : f0 + self.freq] = 0
        x[:, :, :, t0 : t0 + self.frames] = 0
        return x


def conv_block(inputs, outputs):
    """Convolution, norm, activation, halved."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
    )


def build_model():
    """Four blocks and a linear classifier."""
    return nn.Sequential(
        conv_block(1, 16),
        conv_block(16, 32),
        conv_block(32, 64),
        conv_block(64, 96),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(96, CLASSES),
    )


def train(folder, epochs=150, batch_size=32):
    """Train on the recordings in `folder`."""
    torch.manual_seed(3)
    loader = DataLoader(
        KeywordDataset(write_recordings(folder, 100)), batch_size=batch_size, shuffle=True, drop_last=True
    )
    model = build_model().to(memory_format=torch.channels_last)
    augment = SpecAugment()
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4, nesterov=True)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=epochs * len(loader))
    for epoch in range(epochs):
        begun, total, correct, seen = time.perf_counter(), 0.0, 0, 0
        for features, label in loader:
            logits = model(augment(features.unsqueeze(1)))
            loss = criterion(logits, label)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            scheduler.step()
            total += loss.item() * len(label)
            correct += (logits.argmax(1) == label).sum().item()
            seen += len(label)
        took = time.perf_counter() - begun
        print(f"epoch {epoch} loss {total / seen:.4f} acc {correct / seen:.3f} ({took:.1f} s)", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as tmp:
        train(Path(tmp))
