"""Five training programs with planted faults: a language model, a convolution, a cell, experts, a GAN."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

from bench.precision.planted import STEPS, Fault, seeded


class Attention(nn.Module):
    def __init__(self, width: int, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2)
        if self.fault == "scale":  # noqa: SIM108 - the fault has a line of its own
            scores = scores / ((width // 4) ** 0.5 * 1.01)  # fault: scale
        else:
            scores = scores / (width // 4) ** 0.5
        if self.fault == "mask":
            mask = torch.triu(torch.ones(length, length, dtype=torch.bool), 2)  # fault: mask
        else:
            mask = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
        scores = scores.masked_fill(mask, -1e4)
        weights = scores.softmax(-2 if self.fault == "softmax axis" else -1)  # fault: softmax axis
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.norm1 = nn.LayerNorm(width, eps=1e-6 if fault == "epsilon" else 1e-5)
        self.attention = Attention(width, fault)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fault = self.fault
        x = x + self.attention(self.norm1(x))  # fault: epsilon
        h = self.norm2(x)
        if fault == "bfloat16 product":
            weight, bias = self.up.weight.bfloat16(), self.up.bias.bfloat16()  # fault: bfloat16 product
            h = F.linear(h.bfloat16(), weight, bias).float()  # fault: bfloat16 product
        else:
            h = self.up(h)
        if fault == "tanh gelu":
            h = F.gelu(h, approximate="tanh")  # fault: tanh gelu
        elif fault == "hand-written gelu":
            h = 0.5 * h * (1 + torch.tanh(0.79788456 * (h + 0.044715 * h**3)))  # fault: hand-written gelu
        else:
            h = F.gelu(h)
        if fault == "harmless addition":
            h = h + 0.0
        if fault == "nan":
            h = h + 0 * torch.log(-h.abs())  # fault: nan
        h = self.down(h)
        if fault == "dropped_gradient":
            h = h.detach()  # fault: dropped gradient
        if fault == "gradient scale":
            h.register_hook(lambda g: g * 1.05)  # fault: gradient scale
        return x + self.drop(h)


class Language(nn.Module):
    def __init__(self, fault: str, width: int = 64, words: int = 128) -> None:
        super().__init__()
        self.word = nn.Embedding(words, width)
        self.place = nn.Embedding(64, width)
        self.blocks = nn.ModuleList(Block(width, fault if at == 1 else "") for at in range(3))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.word(tokens) + self.place(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def language(fault: str) -> None:
    seeded(fault)
    model = Language(fault)
    decay = 0.1 if fault == "weight decay" else 0.01
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=decay)
    data = torch.randint(0, 128, (STEPS * 4, 33), generator=torch.Generator().manual_seed(5))
    for step in range(STEPS):
        batch = data[4 * step : 4 * step + 4]
        if fault == "order of data":
            batch = batch.flip(0)
        if fault == "extra draw":
            torch.rand(3)
        logits = model(batch[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, 128), batch[:, 1:].reshape(-1))
        loss.backward()
        if fault == "clipped":
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)  # fault: clipped
        optimizer.step()
        optimizer.zero_grad()


class Convolution(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(16, eps=1e-3 if fault == "batch-norm epsilon" else 1e-5)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1, padding_mode="replicate" if fault == "padding" else "zeros")
        self.norm2 = nn.BatchNorm2d(32)
        self.conv3 = nn.Conv2d(32, 32, 3, padding=1)
        self.head = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fault = self.fault
        x = F.relu(self.norm1(self.conv1(x)))  # fault: batch-norm epsilon
        x = F.max_pool2d(x, 2)
        x = F.relu(self.norm2(self.conv2(x)))  # fault: padding
        if fault == "pooling":  # noqa: SIM108 - the fault has a line of its own
            x = F.avg_pool2d(x, 2)  # fault: pooling
        else:
            x = F.max_pool2d(x, 2)
        if fault == "float16 convolution":
            weight, bias = self.conv3.weight.half(), self.conv3.bias.half()  # fault: float16 convolution
            y = F.conv2d(x.half(), weight, bias, padding=1).float()  # fault: float16 convolution
        else:
            y = self.conv3(x)
        if fault == "nan gradient":
            y = y + torch.sqrt((y - y).abs())  # fault: nan gradient
        x = x + F.leaky_relu(y, 0.02 if fault == "slope" else 0.01)  # fault: slope
        return self.head(x.mean((2, 3)))


def convolution(fault: str) -> None:
    seeded(fault)
    model = Convolution(fault)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.8 if fault == "momentum" else 0.9)
    generator = torch.Generator().manual_seed(6)
    old = model.norm2.running_mean.clone()
    for step in range(STEPS):
        images, labels = torch.randn(8, 3, 16, 16, generator=generator), torch.randint(0, 10, (8,), generator=generator)
        if fault == "stale buffer" and step:
            model.norm2.running_mean.copy_(old)  # fault: stale buffer
        if fault == "labels" and step == 1:
            labels = labels.roll(1)  # fault: labels
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


class Recurrent(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.words = nn.Embedding(64, 32)
        self.gates = nn.Linear(32 + 48, 4 * 48)
        self.head = nn.Linear(48, 64)
        if fault == "forget bias":
            with torch.no_grad():
                self.gates.bias[48:96] += 1

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        fault = self.fault
        h = torch.zeros(tokens.shape[0], 48)
        c = torch.zeros(tokens.shape[0], 48)
        out = []
        for at in range(tokens.shape[1]):
            if fault == "cut through time" and at == 6:
                h = h.detach()  # fault: cut through time
            i, f, g, o = self.gates(torch.cat([self.words(tokens[:, at]), h], 1)).chunk(4, 1)
            if fault == "hard sigmoid":
                c = f.sigmoid() * c + F.hardsigmoid(i) * g.tanh()  # fault: hard sigmoid
            else:
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            if fault == "state in bfloat16":
                c = c.bfloat16().float()  # fault: state in bfloat16
            h = o.sigmoid() * c.tanh()
            out.append(h)
        return self.head(torch.stack(out, 1))


def recurrent(fault: str) -> None:
    seeded(fault)
    model = Recurrent(fault)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2, eps=1e-6 if fault == "adam epsilon" else 1e-8)
    generator = torch.Generator().manual_seed(7)
    for _ in range(STEPS):
        tokens = torch.randint(0, 64, (6, 13), generator=generator)
        logits = model(tokens[:, :-1]).reshape(-1, 64)
        if fault == "mean over all":
            loss = F.cross_entropy(logits, tokens[:, 1:].reshape(-1), reduction="sum") / 64  # fault: mean over all
        else:
            loss = F.cross_entropy(logits, tokens[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


class Experts(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.router = nn.Linear(32, 4)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)) for _ in range(4))
        self.head = nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fault = self.fault
        odd = dist.get_rank() == 1
        gates = self.router(x).softmax(0 if fault == "router axis" else -1)  # fault: router axis
        if fault == "one expert":
            weights, chosen = gates.topk(1, -1)  # fault: one expert
        else:
            weights, chosen = gates.topk(2, -1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            weight = (weights * (chosen == number)).sum(-1, keepdim=True)
            out = out + weight * expert(x)
        if fault == "tanh on rank 1" and odd:
            out = out.tanh()  # fault: tanh on rank 1
        return self.head(x + out)


def experts(fault: str) -> None:
    seeded(fault)
    model = Experts(fault)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    generator = torch.Generator().manual_seed(8 + dist.get_rank())
    for _ in range(STEPS):
        x, y = torch.randn(16, 32, generator=generator), torch.randint(0, 8, (16,), generator=generator)
        if fault == "input of rank 1" and dist.get_rank() == 1:
            x = x.clone()
            x[3] += 0.5
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        for parameter in model.parameters():
            if fault == "maximum over ranks":
                dist.all_reduce(parameter.grad, dist.ReduceOp.MAX)  # fault: maximum over ranks
            else:
                dist.all_reduce(parameter.grad)
            if fault != "sum over ranks":
                parameter.grad /= 2
        optimizer.step()
        optimizer.zero_grad()


class Generator(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.one, self.norm, self.two = nn.Linear(16, 64), nn.BatchNorm1d(64), nn.Linear(64, 32)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        if self.fault == "norm in evaluation":
            self.norm.eval()
        out = self.two(F.relu(self.norm(self.one(z))))  # fault: norm in evaluation
        return torch.sigmoid(out) * 2 - 1 if self.fault == "sigmoid" else torch.tanh(out)  # fault: sigmoid


class Discriminator(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.slope = 0.1 if fault == "discriminator slope" else 0.2
        self.one, self.two = nn.Linear(32, 64), nn.Linear(64, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.two(F.leaky_relu(self.one(x), self.slope))  # fault: discriminator slope


def adversarial(fault: str) -> None:
    seeded(fault)
    generator, discriminator = Generator(fault), Discriminator(fault)
    betas = (0.9, 0.999) if fault == "betas" else (0.5, 0.999)
    of_d = torch.optim.Adam(discriminator.parameters(), 2e-4, betas=betas)
    of_g = torch.optim.Adam(generator.parameters(), 2e-4, betas=(0.5, 0.999))
    source = torch.Generator().manual_seed(9)
    for _ in range(STEPS):
        real = torch.randn(16, 32, generator=source)
        if fault == "extra noise":
            torch.randn(4)
        fake = generator(torch.randn(16, 16))
        ones, zeros = torch.ones(16, 1), torch.zeros(16, 1)
        if fault == "smooth labels":
            good = F.binary_cross_entropy_with_logits(discriminator(real), ones * 0.9)  # fault: smooth labels
        else:
            good = F.binary_cross_entropy_with_logits(discriminator(real), ones)
        bad = F.binary_cross_entropy_with_logits(discriminator(fake.detach()), zeros)
        of_d.zero_grad()
        (good + bad).backward()
        of_d.step()
        of_g.zero_grad()
        F.binary_cross_entropy_with_logits(discriminator(fake), ones).backward()
        of_g.step()


PROGRAMS: dict[str, Callable[[str], None]] = {
    "language": language, "convolution": convolution, "recurrent": recurrent, "experts": experts,
    "adversarial": adversarial,
}  # fmt: skip
RANKS = {"experts": 2}
HEALTHY = (("language", "harmless addition"), *((name, "") for name in PROGRAMS))
_RANDOM = ("another_randomness", "another_input")
FAULTS = (
    Fault("language", "bfloat16 product", ("another_dtype",)), Fault("language", "tanh gelu"),
    Fault("language", "hand-written gelu", ("another_formula",)), Fault("language", "epsilon", ("another_argument",)),
    Fault("language", "scale", ("scale", "another_argument")), Fault("language", "mask"),
    Fault("language", "softmax axis", ("another_argument",)),
    Fault("language", "nan", ("not_finite",)), Fault("language", "dropped_gradient", ("dropped_gradient",)),
    Fault("language", "gradient scale", ("inserted_operator", "scale"), "mul"),
    Fault("language", "seed", ("another_input", "another_randomness")),
    Fault("language", "order of data", ("another_input", "another_formula"), "embedding"),
    Fault("language", "extra draw", _RANDOM, "dropout bernoulli"),
    Fault("language", "weight decay", ("another_argument",), "mul"), Fault("language", "clipped"),
    Fault("convolution", "batch-norm epsilon", ("another_argument",)), Fault("convolution", "padding"),
    Fault("convolution", "pooling"), Fault("convolution", "float16 convolution", ("another_dtype",)),
    Fault("convolution", "nan gradient"), Fault("convolution", "slope", ("another_argument",)),
    Fault("convolution", "momentum", ("another_argument",), "mul"),
    Fault("convolution", "stale buffer", ("another_input", "inserted_operator"), "running_mean"),
    Fault("convolution", "labels", ("another_input", "inserted_operator")),
    Fault("recurrent", "forget bias", ("another_input",), "gates.bias"), Fault("recurrent", "cut through time"),
    Fault("recurrent", "hard sigmoid"), Fault("recurrent", "state in bfloat16"),
    Fault("recurrent", "adam epsilon", ("another_argument",), "add"), Fault("recurrent", "mean over all"),
    Fault("experts", "router axis", ranks=2), Fault("experts", "one expert", ranks=2),
    Fault("experts", "tanh on rank 1", ranks=2), Fault("experts", "maximum over ranks", ranks=2),
    Fault("experts", "sum over ranks", ("missing_operator", "scale"), "div", ranks=2),
    Fault("experts", "input of rank 1", ("another_input",), "linear addmm", ranks=2),
    Fault("adversarial", "norm in evaluation"), Fault("adversarial", "sigmoid"),
    Fault("adversarial", "discriminator slope"), Fault("adversarial", "betas", ("another_argument",), "lerp"),
    Fault("adversarial", "extra noise", _RANDOM, "randn addmm"), Fault("adversarial", "smooth labels"),
)  # fmt: skip
