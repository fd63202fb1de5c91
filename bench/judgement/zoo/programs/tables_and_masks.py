"""Zoo programs in other authors' style: loops and lists on the host, tables, teachers and blocks, and a healthy one."""

from __future__ import annotations

import contextlib
import copy
import importlib
from collections.abc import Iterator, Sequence
from typing import Any

torch: Any = importlib.import_module("torch")
functional: Any = importlib.import_module("torch.nn.functional")


def _adam(model: Any) -> Any:
    return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)


def _train(model: Any, *given: Any) -> Iterator[None]:
    optimizer = _adam(model)
    while True:
        optimizer.zero_grad()
        model(*given).square().mean().backward()
        optimizer.step()
        yield


class Squeezed(torch.nn.Module):  # type: ignore[misc]
    """A residual block of a norm and two narrow layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.narrow = torch.nn.Linear(width, width // 2)
        self.wide = torch.nn.Linear(width // 2, width)

    def forward(self, x: Any) -> Any:
        """Of the shape of `x`."""
        return x + self.wide(functional.silu(self.narrow(self.norm(x))))


def shadow_of_weights(*, slow: bool) -> Iterator[None]:
    """Three moving averages of the weights are taken name by name; the cure is one call for all names of each."""
    model = torch.nn.Sequential(*(Squeezed(32) for _ in range(40)))
    shadows = {share: copy.deepcopy(model).requires_grad_(requires_grad=False) for share in (0.1, 0.01, 0.001)}
    steps = _train(model, torch.randn(32, 32))
    while True:
        next(steps)
        for share, shadow in shadows.items():
            if slow:
                kept = shadow.state_dict()
                for name, value in model.state_dict().items():
                    kept[name].copy_(kept[name] * (1 - share) + value * share)
            else:
                with torch.no_grad():
                    torch._foreach_lerp_(list(shadow.parameters()), list(model.parameters()), share)
        yield


def _mean_of_texts(scores: Any, tags: Any, lengths: Sequence[int]) -> Any:
    total = scores.new_zeros(())
    for row, wanted, length in zip(scores, tags, lengths, strict=True):
        total = total + functional.cross_entropy(row[:length], wanted[:length])
    return total / len(lengths)


def _mean_of_places(scores: Any, tags: Any, lengths: Any) -> Any:
    there = torch.arange(tags.shape[1]) < lengths[:, None]
    apart = functional.cross_entropy(scores.flatten(0, 1), tags.flatten(), reduction="none").view_as(tags)
    return ((apart * there).sum(1) / lengths).mean()


def loss_by_sample(*, slow: bool) -> Iterator[None]:
    """A tagger of texts reckons its loss text by text; the cure is one loss for all places, with a mask."""
    layer, head = torch.nn.LSTM(24, 32, batch_first=True), torch.nn.Linear(32, 12)
    optimizer = _adam(torch.nn.ModuleList([layer, head]))
    x, tags = torch.randn(96, 24, 24), torch.arange(96 * 24).view(96, 24) % 12
    lengths = [12 + number % 13 for number in range(96)]
    while True:
        scores = head(layer(x)[0])
        loss = _mean_of_texts(scores, tags, lengths) if slow else _mean_of_places(scores, tags, torch.tensor(lengths))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def _window(lengths: Sequence[int], places: int, reach: int, *, lists: bool) -> Any:
    """Whether a place may look at another: it is near, and inside the text."""
    if lists:
        return torch.tensor(
            [
                [[abs(here - there) <= reach and there < length for there in range(places)] for here in range(places)]
                for length in lengths
            ]
        )
    place = torch.arange(places)
    near = (place[:, None] - place).abs() <= reach
    return near & (place < torch.tensor(lengths)[:, None, None])


class Local(torch.nn.Module):  # type: ignore[misc]
    """Attention of four heads under a mask, and two layers after it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.joined, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.body = torch.nn.Sequential(
            torch.nn.Linear(width, 2 * width), torch.nn.GELU(), torch.nn.Linear(2 * width, width)
        )

    def forward(self, x: Any, mask: Any = None) -> Any:
        """Of the shape of `x`: texts, places, channels. Without a mask, places look back only."""
        q, k, v = self.joined(self.first(x)).unflatten(2, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        x = x + self.out(found.transpose(1, 2).flatten(2))
        return x + self.body(self.second(x))


def mask_in_python(*, slow: bool) -> Iterator[None]:
    """The mask of attention is made of lists of lists in each step; the cure compares numbers of places as tensors."""
    model = Local(96)
    optimizer = _adam(model)
    x, lengths = torch.randn(8, 64, 96), [64 - 4 * number for number in range(8)]
    while True:
        mask = _window(lengths, 64, 16, lists=slow)[:, None]
        # Of a place beyond the end of a text nothing is left: each looks at itself at least.
        mask = mask | torch.eye(64, dtype=torch.bool)
        optimizer.zero_grad()
        model(x, mask).square().mean().backward()
        optimizer.step()
        yield


class Taste(torch.nn.Module):  # type: ignore[misc]
    """How well things suit people, of a row for each of them and a perceptron."""

    def __init__(self, people: int, things: int, *, sparse: bool) -> None:
        super().__init__()
        self.people = torch.nn.Embedding(people, 32, sparse=sparse)
        self.things = torch.nn.Embedding(things, 32, sparse=sparse)
        self.body = torch.nn.Sequential(
            torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 128), torch.nn.ReLU(),
            torch.nn.Linear(128, 1),
        )  # fmt: skip

    def forward(self, who: Any, what: Any) -> Any:
        """A score for each pair."""
        return self.body(torch.cat([self.people(who), self.things(what)], 1))[:, 0]


def large_table(*, slow: bool) -> Iterator[None]:
    """The gradient of a large embedding is as large as its table; the cure has only the rows of the batch in it."""
    model = Taste(150_000, 50_000, sparse=not slow)
    tables = [model.people.weight, model.things.weight]
    rest = torch.optim.SGD(model.body.parameters(), lr=0.01)
    # Plain descent moves no row that has no gradient: both do the same.
    rows = torch.optim.SGD(tables, lr=0.01)
    dice = torch.Generator().manual_seed(0)
    while True:
        who, what = (torch.randint(0, count, (512,), generator=dice) for count in (150_000, 50_000))
        loss = functional.binary_cross_entropy_with_logits(model(who, what), (who % 2).float())
        rest.zero_grad()
        rows.zero_grad()
        loss.backward()
        rest.step()
        rows.step()
        yield


def _pictures(width: int, depth: int) -> Any:
    """A network of convolutions that gives ten scores."""
    body = [
        part
        for _ in range(depth)
        for part in (torch.nn.Conv2d(width, width, 3, padding=1), torch.nn.ReLU())
    ]  # fmt: skip
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, width, 3, stride=2, padding=1), torch.nn.ReLU(), *body,
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(width, 10),
    )  # fmt: skip


def teacher_learns_too(*, slow: bool) -> Iterator[None]:
    """Backward goes through a teacher that nobody updates; the cure asks it without a graph."""
    teacher, student = _pictures(32, 3).eval(), _pictures(16, 1)
    optimizer = _adam(student)
    x = torch.randn(16, 3, 32, 32)
    while True:
        with contextlib.nullcontext() if slow else torch.no_grad():
            wanted = (teacher(x) / 2).softmax(1)
        loss = -(wanted * (student(x) / 2).log_softmax(1)).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


class Turning(torch.nn.Module):  # type: ignore[misc]
    """A norm and two layers over channels, for pictures whose channels come first, or last as they are kept."""

    def __init__(self, width: int, *, turns: bool) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.scale = torch.nn.Parameter(torch.ones(width))
        self.turns = turns

    def forward(self, x: Any) -> Any:
        """Of the shape of `x`."""
        if not self.turns:
            return x + self.norm(x) * self.scale
        turned = x.permute(0, 2, 3, 1).contiguous()
        return x + (self.norm(turned) * self.scale).permute(0, 3, 1, 2).contiguous()


def blocks_turned(*, slow: bool) -> Iterator[None]:
    """Each block turns its pictures so that channels are last, and back; the cure turns them once, before the first."""
    x = torch.randn(4, 64, 32, 32)
    model = torch.nn.Sequential(*(Turning(64, turns=slow) for _ in range(6)))
    yield from _train(model, x if slow else x.permute(0, 2, 3, 1).contiguous())


def bytes_to_floats(*, slow: bool) -> Iterator[None]:
    """Frames become numbers in new memory at each step; the cure writes over what the last step used."""
    frames = torch.randint(0, 256, (43, 3, 256, 256), dtype=torch.uint8)
    kept = torch.empty(frames.shape)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 32, stride=32), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(512, 10)
    )
    optimizer = _adam(model)
    y = torch.arange(len(frames)) % 10
    while True:
        x = frames.float() / 255 if slow else kept.copy_(frames).div_(255)
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        yield


def next_token(*, slow: bool) -> Iterator[None]:
    """A control: a small language model."""
    table, blocks = torch.nn.Embedding(256, 128), torch.nn.ModuleList([Local(128) for _ in range(2)])
    head = torch.nn.Linear(128, 256)
    optimizer = _adam(torch.nn.ModuleList([table, blocks, head]))
    tokens = torch.randint(0, 256, (16, 65))
    while True:
        x = table(tokens[:, :-1])
        for block in blocks:
            x = block(x)
        loss = functional.cross_entropy(head(x).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield
