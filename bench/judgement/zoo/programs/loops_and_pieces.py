"""Zoo programs as people write them: threads and loops on the host, models in pieces, and some healthy ones."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

torch: Any = importlib.import_module("torch")
data: Any = importlib.import_module("torch.utils.data")
functional: Any = importlib.import_module("torch.nn.functional")

FOREVER = 1_000_000


def _train(model: Any, *given: Any) -> Iterator[None]:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    while True:
        optimizer.zero_grad()
        model(*given).square().mean().backward()
        optimizer.step()
        yield


def _classify(model: Any, loader: Any) -> Iterator[None]:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    for x, y in loader:
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        yield


class Objects:
    """Samples in a store that answers after a millisecond; a batch asks for all of its at once."""

    def __init__(self, pool: Executor | None) -> None:
        self._pool = pool

    def __len__(self) -> int:
        return FOREVER

    def __getitems__(self, numbers: Sequence[int]) -> list[Any]:
        """The samples of a batch."""
        if self._pool:
            return list(self._pool.map(_asked_for, numbers))
        with ThreadPoolExecutor(len(numbers)) as pool:
            return list(pool.map(_asked_for, numbers))


def _asked_for(number: int) -> Any:
    time.sleep(0.001)
    return torch.full((256,), float(number % 7)), number % 10


def pool_anew(*, slow: bool) -> Iterator[None]:
    """Threads are started for each batch and ended after it, in place of a pool that is kept."""
    samples = Objects(None if slow else ThreadPoolExecutor(64))
    model = torch.nn.Sequential(torch.nn.Linear(256, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    yield from _classify(model, data.DataLoader(samples, batch_size=64))


def _oversubscribed(_worker: int) -> None:
    torch.set_num_threads(8)


def _single(_worker: int) -> None:
    torch.set_num_threads(1)


class Augmented:
    """Pictures that are blurred and brightened in the worker."""

    def __len__(self) -> int:
        return FOREVER

    def __getitem__(self, number: int) -> Any:
        picture = torch.full((3, 128, 128), (number % 9) / 9)
        for _ in range(3):
            picture = (picture * 1.01 + 0.01).clamp(0, 1).sqrt()
        return functional.avg_pool2d(picture, 4), number % 10


def threads_in_workers(*, slow: bool) -> Iterator[None]:
    """Each of four workers computes with eight threads, in place of one."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, stride=2), torch.nn.ReLU(), torch.nn.Conv2d(16, 32, 3, stride=2), torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, 10),
    )  # fmt: skip
    start = _oversubscribed if slow else _single
    loader = data.DataLoader(Augmented(), batch_size=16, num_workers=4, worker_init_fn=start)
    yield from _classify(model, loader)


class Sequences(torch.nn.Module):  # type: ignore[misc]
    """An LSTM, as one layer or as a cell that is called for each place of the sequence."""

    def __init__(self, features: int, hidden: int, *, by_cell: bool) -> None:
        super().__init__()
        self.layer = torch.nn.LSTM(features, hidden, batch_first=True)
        self.by_cell = by_cell

    def forward(self, x: Any) -> Any:
        """The hidden state at each place."""
        if not self.by_cell:
            return self.layer(x)[0]
        weights = [self.layer.weight_ih_l0, self.layer.weight_hh_l0, self.layer.bias_ih_l0, self.layer.bias_hh_l0]
        h = c = x.new_zeros(x.shape[0], self.layer.hidden_size)
        found = []
        for place in range(x.shape[1]):
            i, f, g, o = (
                functional.linear(x[:, place], weights[0], weights[2]) + functional.linear(h, weights[1], weights[3])
            ).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            found.append(h)
        return torch.stack(found, 1)


def place_by_place(*, slow: bool) -> Iterator[None]:
    """An LSTM that is written as a loop over the places of a sequence."""
    yield from _train(Sequences(32, 64, by_cell=slow), torch.randn(32, 48, 32))


class Norm(torch.nn.Module):  # type: ignore[misc]
    """Layer norm by its formula, or by its operator."""

    def __init__(self, width: int, *, formula: bool) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))
        self.bias = torch.nn.Parameter(torch.zeros(width))
        self.formula = formula

    def forward(self, x: Any) -> Any:
        """`x` with mean 0 and variance 1 along the last axis."""
        if not self.formula:
            return functional.layer_norm(x, self.weight.shape, self.weight, self.bias)
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * self.weight + self.bias


class Mixer(torch.nn.Module):  # type: ignore[misc]
    """A block that mixes places, then channels, with a norm before and after each."""

    def __init__(self, places: int, width: int, *, formula: bool = False) -> None:
        super().__init__()
        self.norms = torch.nn.ModuleList([Norm(width, formula=formula) for _ in range(4)])
        self.places = torch.nn.Sequential(torch.nn.Conv1d(places, places, 1), torch.nn.ReLU())
        self.channels = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU())

    def forward(self, x: Any) -> Any:
        """Of the shape of `x`: batch, places, channels."""
        x = x + self.norms[1](self.places(self.norms[0](x)))
        return x + self.norms[3](self.channels(self.norms[2](x)))


def norm_spelled_out(*, slow: bool) -> Iterator[None]:
    """An MLP-mixer whose layer norm is its formula."""
    yield from _train(torch.nn.Sequential(*(Mixer(16, 32, formula=slow) for _ in range(3))), torch.randn(96, 16, 32))


def clipped_apart(*, slow: bool) -> Iterator[None]:
    """The clipping of gradients is called for each parameter, in place of once for all; none is large enough."""
    model, x = torch.nn.Sequential(*(Mixer(8, 8) for _ in range(16))), torch.randn(8, 8, 8)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    while True:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        if slow:
            for parameter in model.parameters():
                torch.nn.utils.clip_grad_norm_([parameter], 1e3)
        else:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1e3)
        optimizer.step()
        yield


class Neighbours(torch.nn.Module):  # type: ignore[misc]
    """A graph network: nodes send messages along edges, and add up what arrives."""

    def __init__(self, width: int, nodes: int, edges: Any, *, scatters: bool) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(width, width) for _ in range(2)])
        self.source, self.target = edges
        ones = torch.ones(edges.shape[1])
        self.matrix = torch.sparse_coo_tensor(edges.flip(0), ones, (nodes, nodes)).coalesce().to_sparse_csr()
        self.scatters = scatters

    def forward(self, x: Any) -> Any:
        """Features of each node."""
        for layer in self.layers:
            sent = layer(x)
            if self.scatters:
                x = torch.zeros_like(x).index_add(0, self.target, sent[self.source]).relu()
            else:
                x = (self.matrix @ sent).relu()
        return x


def scatter_of_edges(*, slow: bool) -> Iterator[None]:
    """Messages are made for each edge and scattered to nodes, in place of a product with the sparse matrix of edges."""
    edges = torch.randint(0, 2000, (2, 40000), generator=torch.Generator().manual_seed(0))
    yield from _train(Neighbours(32, 2000, edges, scatters=slow), torch.randn(2000, 32))


def target_of_doubles(*, slow: bool) -> Iterator[None]:
    """The target came from the disk in float64, and so does all of the loss go on in it."""
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1024), torch.nn.Unflatten(1, (32, 32))
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    x, target = torch.randn(256, 64), torch.rand(256, 32, 32, dtype=torch.float64)
    target = target if slow else target.float()
    while True:
        off = model(x) - target
        edges = off.diff(dim=1).abs().mean() + off.diff(dim=2).abs().mean()
        loss = (off.square() + 1e-6).sqrt().mean() + 0.1 * edges + 0.1 * off.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def joined_queue(*, slow: bool) -> Iterator[None]:
    """The last features are kept by joining old and new ones into a new tensor, in place of writing over the oldest."""
    model = torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.ReLU(), torch.nn.Linear(128, 128))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    queue, x, oldest = torch.randn(72_000, 128), torch.randn(16, 128), 0
    dice = torch.Generator().manual_seed(0)
    while True:
        out = functional.normalize(model(x))
        drawn = torch.randint(0, len(queue), (4096,), generator=dice)
        logits = out @ queue[(drawn + oldest) % len(queue)].T / 0.1
        optimizer.zero_grad()
        functional.cross_entropy(logits, torch.arange(16)).backward()
        optimizer.step()
        if slow:
            queue = torch.cat([queue[16:], out.detach()])
        else:
            queue[oldest : oldest + 16] = out.detach()
            oldest = (oldest + 16) % len(queue)
        yield


def many_micro_batches(*, slow: bool) -> Iterator[None]:
    """A batch is cut into forty-eight of two samples each, where memory has room for all of it."""
    model = torch.nn.Sequential(*(Mixer(16, 32) for _ in range(2)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    x, pieces = torch.randn(96, 16, 32), 48 if slow else 2
    while True:
        optimizer.zero_grad()
        for micro in x.chunk(pieces):
            (model(micro).square().mean() / pieces).backward()
        optimizer.step()
        yield


def gated_units(*, slow: bool) -> Iterator[None]:
    """A control: a recurrent layer, and batches from a worker that keeps up."""
    layer, head = torch.nn.GRU(32, 96, batch_first=True), torch.nn.Linear(96, 32)
    optimizer = torch.optim.Adam([*layer.parameters(), *head.parameters()], lr=1e-4, fused=True)
    samples = data.TensorDataset(torch.randn(4096, 48, 32))
    loader = data.DataLoader(samples, batch_size=32, num_workers=1, persistent_workers=True, shuffle=True)
    while True:
        for (x,) in loader:
            loss = functional.mse_loss(head(layer(x)[0][:, :-1]), x[:, 1:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield


def large_experts(*, slow: bool) -> Iterator[None]:
    """A decoy: a loop over four experts, each of which computes for long."""
    experts = torch.nn.ModuleList([torch.nn.Linear(512, 512) for _ in range(4)])
    optimizer = torch.optim.SGD(experts.parameters(), lr=0.01)
    x = torch.randn(4, 192, 512)
    while True:
        out = torch.stack([expert(part) for expert, part in zip(experts, x, strict=True)])
        optimizer.zero_grad()
        out.relu().square().mean().backward()
        optimizer.step()
        yield
