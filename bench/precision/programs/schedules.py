"""Four training programs with planted faults: accumulated gradients, diffusion, attention cells, a recommender."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

from bench.precision.planted import STEPS, Fault, seeded


class Layer(nn.Module):
    def __init__(self, width: int, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(width, eps=1e-6)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.gate, self.up, self.down = nn.Linear(width, 96), nn.Linear(width, 96), nn.Linear(96, width)
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fault = self.fault
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        if fault != "no query norm":
            q = F.normalize(q, dim=-1) * 3
        if fault == "causal":
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # fault: causal
        elif fault == "attention scale":
            y = F.scaled_dot_product_attention(q, k, v, scale=0.3)  # fault: attention scale
        else:
            y = F.scaled_dot_product_attention(q, k, v)
        y = self.out(y.transpose(1, 2).reshape(batch, length, width))
        if fault == "layer scale left out":  # noqa: SIM108 - the fault has a line of its own
            x = x + y  # fault: layer scale left out
        else:
            x = x + y * self.scale
        h = self.norm2(x)
        if fault == "swapped gate":  # noqa: SIM108 - the fault has a line of its own
            h = self.gate(h) * F.silu(self.up(h))  # fault: swapped gate
        else:
            h = F.silu(self.gate(h)) * self.up(h)
        if fault == "clamped":
            h = h.clamp(-0.2, 0.2)  # fault: clamped
        return x + self.down(h)


class Patches(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.embed = nn.Conv2d(3, 48, 4, 4)
        self.place = nn.Parameter(torch.randn(1, 17, 48) * 0.02)
        self.token = nn.Parameter(torch.zeros(1, 1, 48))
        self.layers = nn.ModuleList(Layer(48, fault if at == 1 else "") for at in range(3))
        self.norm, self.head = nn.LayerNorm(48), nn.Linear(48, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1)
        if self.fault == "places rolled":  # noqa: SIM108 - the fault has a line of its own
            x = x + self.place.roll(1, 1)  # fault: places rolled
        else:
            x = x + self.place
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        if self.fault == "mean for class token":
            return self.head(x.mean(1))  # fault: mean for class token
        return self.head(x[:, 0])


def patches(fault: str) -> None:
    seeded(fault)
    model = Patches(fault)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (step + (2 if fault == "warmup" else 1)) / 10)
    source = torch.Generator().manual_seed(11)
    for _ in range(STEPS):
        for _ in range(2):
            images, labels = torch.randn(4, 3, 16, 16, generator=source), torch.randint(0, 10, (4,), generator=source)
            if fault == "no mean of images":
                images = images + 0.05
            with torch.autocast("cpu", torch.float16 if fault == "autocast in float16" else torch.bfloat16):
                loss = F.cross_entropy(model(images), labels)
            if fault == "accumulation not divided":
                loss.backward()
            else:
                (loss / 2).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5 if fault == "clip at a half" else 1.0)  # fault: clip at a half
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()


class Noise(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.time = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 32))
        self.enter, self.down = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(4 if fault == "groups" else 8, 32)
        self.middle = nn.Conv2d(32, 32, 3, padding=1)
        self.up = nn.ConvTranspose2d(32, 16, 4, 2, 1)
        self.leave = nn.Conv2d(32, 1, 3, padding=1)
        self.drop = nn.Dropout2d(0.2)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        fault = self.fault
        base = 1000.0 if fault == "base of frequencies" else 10000.0
        rate = torch.exp(-torch.arange(8) / 8 * torch.log(torch.tensor(base)))
        angle = t[:, None] * rate  # fault: base of frequencies
        if fault == "cosine before sine":
            time = self.time(torch.cat([angle.cos(), angle.sin()], 1))  # fault: cosine before sine
        else:
            time = self.time(torch.cat([angle.sin(), angle.cos()], 1))
        first = F.silu(self.enter(x))
        h = self.norm(self.down(first))  # fault: groups
        if fault != "time left out":
            h = h + time[:, :, None, None]
        h = F.relu(h) if fault == "relu for silu" else F.silu(h)  # fault: relu for silu
        h = self.drop(self.middle(h))
        if fault == "nearest for transposed":  # noqa: SIM108 - the fault has a line of its own
            h = F.interpolate(h[:, :16], scale_factor=2)  # fault: nearest for transposed
        else:
            h = self.up(h)
        if fault == "skip behind":
            return self.leave(torch.cat([h, first], 1))  # fault: skip behind
        return self.leave(torch.cat([first, h], 1))


def diffusion(fault: str) -> None:
    seeded(fault)
    model = Noise(fault)
    optimizer = torch.optim.RMSprop(model.parameters(), 1e-3, alpha=0.9 if fault == "alpha" else 0.99)
    source = torch.Generator().manual_seed(12)
    alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.03 if fault == "schedule of noise" else 0.02, 100), 0)
    for _ in range(STEPS):
        clean = torch.randn(6, 1, 12, 12, generator=source)
        t = torch.randint(0, 100, (6,), generator=source)
        noise = torch.randn(clean.shape)
        share = alphas[t][:, None, None, None]
        noisy = share.sqrt() * clean + (1 - share).sqrt() * noise
        found = model(noisy, t.float())
        if fault == "absolute loss":  # noqa: SIM108 - the fault has a line of its own
            loss = F.l1_loss(found, noise)  # fault: absolute loss
        else:
            loss = F.mse_loss(found, noise)
        optimizer.zero_grad()
        loss.backward()
        if fault == "gradients halved":
            for parameter in model.parameters():
                parameter.grad.mul_(0.5)  # fault: gradients halved
        optimizer.step()


class Translator(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.words = nn.Embedding(50, 24, padding_idx=0)
        self.encoder = nn.GRU(24, 32, batch_first=True, bidirectional=True)
        self.decoder = nn.LSTM(24, 32, batch_first=True)
        self.bridge, self.query = nn.Linear(64, 32), nn.Linear(32, 64)
        self.head = nn.Linear(96, 24)
        self.drop = nn.Dropout(0.3 if fault == "rate of dropout" else 0.1)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        fault = self.fault
        memory, last = self.encoder(self.words(source))
        start = self.bridge(last.transpose(0, 1).reshape(len(source), -1))
        if fault == "start without tanh":  # noqa: SIM108 - the fault has a line of its own
            start = start * 1.0  # fault: start without tanh
        else:
            start = start.tanh()
        state = (start[None], torch.zeros_like(start)[None])
        h, _ = self.decoder(self.words(target), state)
        scores = self.query(h) @ memory.transpose(1, 2)
        if fault != "padding attended":
            scores = scores.masked_fill((source == 0)[:, None], float("-inf"))
        if fault == "softmax in float16":  # noqa: SIM108 - the fault has a line of its own
            weights = scores.half().softmax(-1).float()  # fault: softmax in float16
        else:
            weights = scores.softmax(-1)
        context = weights @ memory
        if fault == "stopped context":
            context = context.detach()  # fault: stopped context
        h = self.head(self.drop(torch.cat([h, context], -1)))  # fault: rate of dropout
        return h @ self.words.weight.T


def translation(fault: str) -> None:
    seeded(fault)
    model = Translator(fault)
    if fault == "bias of a cell":
        with torch.no_grad():
            model.decoder.bias_ih_l0[32:64] = 1
    optimizer = torch.optim.Adam(model.parameters(), 2e-3, amsgrad=fault == "amsgrad")
    source = torch.Generator().manual_seed(13)
    for _ in range(STEPS):
        first, second = (torch.randint(1, 50, (5, 9), generator=source) for _ in range(2))
        first[:, 7:] = 0
        second[2:, 6:] = 0
        logits = model(first, second[:, :-1]).reshape(-1, 50)
        gold = second[:, 1:].reshape(-1)
        if fault == "not shifted":
            gold = second[:, :-1].reshape(-1)  # fault: not shifted
        if fault == "padding counted":
            loss = F.cross_entropy(logits, gold)  # fault: padding counted
        elif fault == "smoothed":
            loss = F.cross_entropy(logits, gold, ignore_index=0, label_smoothing=0.1)  # fault: smoothed
        else:
            loss = F.cross_entropy(logits, gold, ignore_index=0)
        if fault == "infinite":
            loss = loss + torch.tensor(1e-30) / (loss.detach() * 0)  # fault: infinite
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class Recommender(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        mode = "sum" if fault == "sum of a bag" else "mean"
        self.user, self.items = nn.Embedding(40, 16), nn.EmbeddingBag(60, 16, mode=mode)
        self.tower = nn.Sequential(nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, user: torch.Tensor, bag: torch.Tensor) -> torch.Tensor:
        fault = self.fault
        odd = dist.get_rank() == 1
        items = self.items(bag)  # fault: sum of a bag
        both = self.tower(torch.cat([self.user(user), items], 1))
        if fault == "normalized on rank 1" and odd:
            both = F.normalize(both, dim=-1)  # fault: normalized on rank 1
        if fault == "bfloat16 on rank 1" and odd:
            both = both.bfloat16().float()  # fault: bfloat16 on rank 1
        return both @ self.user.weight.T / (0.5 if fault == "temperature" else 1.0)


def recommender(fault: str) -> None:
    seeded(fault)
    rank = dist.get_rank()
    model: nn.Module = Recommender(fault)
    if fault != "not synchronized":
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adagrad(model.parameters(), 0.05)
    source = torch.Generator().manual_seed(14 + (0 if fault == "same share" else rank))
    for _ in range(STEPS):
        user = torch.randint(0, 40, (8,), generator=source)
        bag = torch.randint(0, 60, (8, 5), generator=source)
        click = torch.randint(0, 40, (8,), generator=source)
        loss = F.cross_entropy(model(user, bag), click)
        if fault == "weighted on rank 1" and rank == 1:
            loss = loss * 2  # fault: weighted on rank 1
        optimizer.zero_grad()
        loss.backward()
        total = loss.detach().clone()
        if fault == "loss of one rank":
            dist.broadcast(total, 0)  # fault: loss of one rank
        else:
            dist.all_reduce(total)
        optimizer.step()


PROGRAMS: dict[str, Callable[[str], None]] = {
    "patches": patches, "diffusion": diffusion, "translation": translation, "recommender": recommender,
}  # fmt: skip
RANKS = {"recommender": 2}
HEALTHY = tuple((name, "") for name in PROGRAMS)
FAULTS = (
    Fault("patches", "no query norm", ("missing_operator", "another_formula"), "norm"), Fault("patches", "causal"),
    Fault("patches", "attention scale"), Fault("patches", "layer scale left out"), Fault("patches", "swapped gate"),
    Fault("patches", "clamped"), Fault("patches", "places rolled"), Fault("patches", "mean for class token"),
    Fault("patches", "warmup", ("another_argument",), "mul add addcdiv _foreach"),
    Fault("patches", "no mean of images", ("another_input",), "_to_copy convolution"),
    Fault("patches", "autocast in float16", ("another_dtype",), "_to_copy convolution"),
    Fault("patches", "accumulation not divided", ("missing_operator", "scale"), "div"),
    Fault("patches", "clip at a half"),
    Fault("diffusion", "groups", ("another_argument", "another_shape", "another_formula")),
    Fault("diffusion", "base of frequencies", (), "lift log exp mul"), Fault("diffusion", "cosine before sine"),
    Fault("diffusion", "time left out", ("missing_operator",), "add"), Fault("diffusion", "relu for silu"),
    Fault("diffusion", "nearest for transposed"), Fault("diffusion", "skip behind"),
    Fault("diffusion", "alpha", ("another_argument",), "mul addcmul"),
    Fault("diffusion", "schedule of noise", ("another_argument", "another_input"), "linspace index mul convolution"),
    Fault("diffusion", "absolute loss"), Fault("diffusion", "gradients halved"),
    Fault("translation", "start without tanh"), Fault("translation", "rate of dropout"),
    Fault("translation", "padding attended", ("missing_operator", "another_formula"), "masked_fill eq softmax"),
    Fault("translation", "softmax in float16", ("another_dtype",)),
    Fault("translation", "stopped context", ("dropped_gradient",)),
    Fault("translation", "bias of a cell", ("another_input",), "bias_ih_l0"),
    Fault("translation", "amsgrad", (), "maximum max"), Fault("translation", "not shifted"),
    Fault("translation", "padding counted"), Fault("translation", "smoothed"),
    Fault("translation", "infinite", ("not_finite", "inserted_operator")),
    Fault("recommender", "sum of a bag", ranks=2), Fault("recommender", "normalized on rank 1", ranks=2),
    Fault("recommender", "bfloat16 on rank 1", ranks=2),
    Fault("recommender", "temperature", ("another_argument", "scale"), "div", ranks=2),
    Fault("recommender", "not synchronized", (), "allreduce", ranks=2),
    Fault("recommender", "same share", ("another_input",), "embedding items", ranks=2),
    Fault("recommender", "weighted on rank 1", ranks=2), Fault("recommender", "loss of one rank", ranks=2),
)  # fmt: skip
