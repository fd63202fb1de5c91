"""Zoo programs in other authors' style: fields, masks, painters and shadows, speech of any length, and a denoiser."""

from __future__ import annotations

import copy
import importlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

torch: Any = importlib.import_module("torch")
functional: Any = importlib.import_module("torch.nn.functional")


def _adam(model: Any) -> Any:
    return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)


class Fields(torch.nn.Module):  # type: ignore[misc]
    """A vector for what stands in each field of a row, and their score: a table for each field, or one for all."""

    def __init__(self, sizes: Sequence[int], width: int, *, apart: bool) -> None:
        super().__init__()
        first = [0]
        for size in sizes:
            first.append(first[-1] + size)
        table = torch.randn(first.pop(), width)
        self.register_buffer("first", torch.tensor(first))
        parts = table.split(list(sizes)) if apart else [table]
        self.tables = torch.nn.ModuleList([torch.nn.Embedding.from_pretrained(part, freeze=False) for part in parts])
        self.score = torch.nn.Sequential(
            torch.nn.Linear(len(sizes) * width, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)
        )

    def forward(self, x: Any) -> Any:
        """A number for each row."""
        if len(self.tables) > 1:
            found = torch.cat([table(x[:, field]) for field, table in enumerate(self.tables)], 1)
        else:
            found = self.tables[0](x + self.first).flatten(1)
        return self.score(found)[:, 0]


def column_by_column(*, slow: bool) -> Iterator[None]:
    """Each of 200 fields of a row has a table of its own; the cure has one for all, in which each begins somewhere."""
    sizes = [20 + field % 60 for field in range(200)]
    model = Fields(sizes, 16, apart=slow)
    optimizer = _adam(model)
    x, y = torch.stack([torch.randint(size, (192,)) for size in sizes], 1), (torch.arange(192) % 3 == 0).float()
    while True:
        loss = functional.binary_cross_entropy_with_logits(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


class Block(torch.nn.Module):  # type: ignore[misc]
    """Attention to what came before, and two layers, each added to what comes in."""

    def __init__(self, width: int, heads: int, *, masks: bool) -> None:
        super().__init__()
        self.heads, self.masks = heads, masks
        self.norms = torch.nn.ModuleList([torch.nn.LayerNorm(width) for _ in range(2)])
        self.three, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.body = torch.nn.Sequential(
            torch.nn.Linear(width, 2 * width), torch.nn.GELU(), torch.nn.Linear(2 * width, width)
        )

    def forward(self, x: Any) -> Any:
        """Of the shape of `x`: batch, places, channels."""
        batch, places, _ = x.shape
        parts = self.three(self.norms[0](x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if self.masks:
            mask = torch.full((batch, self.heads, places, places), -math.inf).triu(1)
            found = functional.scaled_dot_product_attention(*parts, attn_mask=mask)
        else:
            found = functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(found.transpose(1, 2).flatten(2))
        return x + self.body(self.norms[1](x))


def causal_by_mask(*, slow: bool) -> Iterator[None]:
    """Each block makes a mask of batch, heads, places and places, for a language model; the cure says is_causal."""
    table, head = torch.nn.Embedding(256, 64), torch.nn.Linear(64, 256)
    blocks = torch.nn.Sequential(*(Block(64, 4, masks=slow) for _ in range(3)))
    optimizer = _adam(torch.nn.ModuleList([table, blocks, head]))
    tokens = torch.randint(256, (1, 513))
    while True:
        scores = head(blocks(table(tokens[:, :-1])))
        loss = functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def _judged(critic: Any, pictures: Any, *, real: bool) -> Any:
    scores = critic(pictures)
    return functional.binary_cross_entropy_with_logits(scores, torch.full_like(scores, float(real)))


def undetached_painter(*, slow: bool) -> Iterator[None]:
    """When the critic of a GAN learns, backward goes on through the painter; the cure detaches what it painted.

    The painter's gradients of that pass are dropped before it learns by itself.
    """
    painter = torch.nn.Sequential(
        torch.nn.Linear(32, 96 * 16), torch.nn.Unflatten(1, (96, 4, 4)),
        torch.nn.ConvTranspose2d(96, 64, 4, stride=2, padding=1), torch.nn.BatchNorm2d(64), torch.nn.ReLU(),
        torch.nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1), torch.nn.BatchNorm2d(32), torch.nn.ReLU(),
        torch.nn.Conv2d(32, 32, 3, padding=1), torch.nn.ReLU(),
        torch.nn.ConvTranspose2d(32, 3, 4, stride=2, padding=1), torch.nn.Tanh(),
    )  # fmt: skip
    critic = torch.nn.Sequential(
        torch.nn.Conv2d(3, 12, 4, stride=4), torch.nn.LeakyReLU(0.2), torch.nn.Conv2d(12, 24, 4, stride=4),
        torch.nn.LeakyReLU(0.2), torch.nn.Flatten(), torch.nn.Linear(24 * 4, 1),
    )  # fmt: skip
    paints, judges = _adam(painter), _adam(critic)
    photos = torch.rand(16, 3, 32, 32) * 2 - 1
    while True:
        painted = painter(torch.randn(16, 32))
        shown = painted if slow else painted.detach()
        judges.zero_grad()
        loss = _judged(critic, photos, real=True) + _judged(critic, shown, real=False)
        loss.backward(retain_graph=slow)
        judges.step()
        critic.requires_grad_(requires_grad=False)
        paints.zero_grad()
        _judged(critic, painted, real=True).backward()
        paints.step()
        critic.requires_grad_(requires_grad=True)
        yield


def _projected(width: int, inner: int) -> Any:
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, width, 16), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(width, inner), torch.nn.ReLU(), torch.nn.Linear(inner, 64),
    )  # fmt: skip


def followed_anew(*, slow: bool) -> Iterator[None]:
    """A second network follows the first by sums in new memory, as MoCo's code has it; the cure moves it in place.

    Its widest layer is as that of BYOL, so the sums are too large for memory that the allocator keeps.
    """
    model, head = _projected(2048, 4096), torch.nn.Linear(64, 64)
    follower = copy.deepcopy(model).requires_grad_(requires_grad=False)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=1e-3, fused=True)
    x = torch.rand(4, 3, 16, 16)
    while True:
        views = [x + 0.1 * torch.randn_like(x) for _ in range(2)]
        with torch.no_grad():
            wanted = follower(views[1])
        loss = 1 - functional.cosine_similarity(head(model(views[0])), wanted).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for old, new in zip(follower.parameters(), model.parameters(), strict=True):
                if slow:
                    old.data = old.data * 0.99 + new.data * 0.01
                else:
                    old.lerp_(new, 0.01)
        yield


def _listener(features: int, width: int, letters: int) -> Any:
    """Convolutions along time, and scores of letters for each place."""
    return torch.nn.Sequential(
        torch.nn.Conv1d(features, width, 11, stride=2, padding=5), torch.nn.ReLU(),
        *(part for _ in range(3) for part in (torch.nn.Conv1d(width, width, 7, padding=3), torch.nn.ReLU())),
        torch.nn.Conv1d(width, letters, 1),
    )  # fmt: skip


def lengths_that_vary(*, slow: bool) -> Iterator[None]:
    """A decoy: speech of another length in each batch, and of one length within it; there is no padding."""
    model = _listener(40, 128, 30)
    optimizer = _adam(model)
    recordings = [torch.randn(8, 40, length) for length in (104, 97, 111, 100, 93, 108, 102)]
    said, letters = torch.randint(1, 30, (8, 20)), torch.full((8,), 20)
    while True:
        for x in recordings:
            scores = model(x).log_softmax(1).permute(2, 0, 1)
            loss = functional.ctc_loss(scores, said, torch.full((8,), len(scores)), letters, zero_infinity=True)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield


class Denoiser(torch.nn.Module):  # type: ignore[misc]
    """Convolutions that are told how much noise there is."""

    def __init__(self, width: int, levels: int) -> None:
        super().__init__()
        self.level = torch.nn.Embedding(levels, width)
        self.first = torch.nn.Conv2d(3, width, 3, padding=1)
        self.body = torch.nn.Sequential(
            torch.nn.ReLU(), torch.nn.Conv2d(width, 2 * width, 4, stride=2, padding=1), torch.nn.ReLU(),
            torch.nn.Conv2d(2 * width, 2 * width, 3, padding=1), torch.nn.ReLU(),
            torch.nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1), torch.nn.ReLU(),
            torch.nn.Conv2d(width, 3, 3, padding=1),
        )  # fmt: skip

    def forward(self, x: Any, level: Any) -> Any:
        """The noise in `x`."""
        return self.body(self.first(x) + self.level(level)[:, :, None, None])


def noise_of_pictures(*, slow: bool) -> Iterator[None]:
    """A control: a small diffusion model learns the noise that was put into pictures."""
    model = Denoiser(24, 1000)
    optimizer = _adam(model)
    share = torch.cos(torch.linspace(0.01, 0.99, 1000) * math.pi / 2).square()
    pictures = torch.rand(12, 3, 32, 32) * 2 - 1
    while True:
        noise, level = torch.randn_like(pictures), torch.randint(1000, (len(pictures),))
        kept = share[level].view(-1, 1, 1, 1)
        loss = functional.mse_loss(model(kept.sqrt() * pictures + (1 - kept).sqrt() * noise, level), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield
