"""Six training programs with planted faults: rotary positions, a graph, a scan, a policy, frequencies, two towers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.checkpoint import checkpoint

from bench.precision.planted import STEPS, Fault, seeded


class Norm(nn.Module):
    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)


def rotate(x: torch.Tensor, base: float, fault: str) -> torch.Tensor:
    half = x.shape[-1] // 2
    rate = base ** (-torch.arange(half).float() / half)
    angle = torch.arange(x.shape[-2]).float()[:, None] * rate
    if fault == "rotation by one more":
        angle = angle + rate  # fault: rotation by one more
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    one, two = x[..., :half], x[..., half:]
    if fault == "rotation the other way":
        return torch.cat([one * cos + two * sin, two * cos - one * sin], -1)  # fault: rotation the other way
    return torch.cat([one * cos - two * sin, one * sin + two * cos], -1)


class Grouped(nn.Module):
    def __init__(self, width: int, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.q, self.kv, self.out = (nn.Linear(width, width) for _ in range(3))
        self.norm1, self.norm2 = Norm(width), Norm(width)
        self.gate, self.up = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * width, width, bias=False)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        fault = self.fault
        batch, length, width = x.shape
        q = self.q(x).view(batch, length, 4, -1).transpose(1, 2)
        k, v = self.kv(x).view(batch, length, 2, 2, -1).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, 10000.0, fault), rotate(k, 10000.0, "")
        if fault == "heads interleaved":
            k, v = k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1)  # fault: heads interleaved
        else:
            k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fault = self.fault
        if fault == "norm behind":  # noqa: SIM108 - the fault has a line of its own
            x = x + self.norm1(self.attend(x))  # fault: norm behind
        else:
            x = x + self.attend(self.norm1(x))
        h = self.norm2(x)
        h = F.gelu(self.gate(h)) if fault == "gelu gate" else F.silu(self.gate(h))  # fault: gelu gate
        return x + self.down(h * self.up(self.norm2(x)))


class Decoder(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.words = nn.Embedding(96, 64)
        self.layers = nn.ModuleList(Grouped(64, fault if at == 1 else "") for at in range(3))
        self.norm = Norm(64)
        self.head = nn.Linear(64, 96, bias=False)
        if fault != "head of its own":
            self.head.weight = self.words.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        logits = self.head(self.norm(x)).float()
        if self.fault == "soft cap":
            logits = 30 * torch.tanh(logits / 30)  # fault: soft cap
        return logits


def decoder(fault: str) -> None:
    seeded(fault)
    model = Decoder(fault).bfloat16()
    optimizer = torch.optim.AdamW(
        model.parameters(), 1e-3, foreach=True, eps=1e-6 if fault == "epsilon of Adam" else 1e-8
    )
    data = torch.randint(0, 96, (STEPS * 3, 25), generator=torch.Generator().manual_seed(21))
    for step in range(STEPS):
        batch = data[3 * step : 3 * step + 3]
        loss = F.cross_entropy(model(batch[:, :-1]).reshape(-1, 96), batch[:, 1:].reshape(-1))
        if fault == "entropy added":
            loss = loss + 1e-2 * model.head.weight.float().square().mean()  # fault: entropy added
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


class Messages(nn.Module):
    def __init__(self, width: int, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.of, self.own = nn.Linear(width, width), nn.Linear(width, width)
        self.score = nn.Parameter(torch.randn(2 * width) * 0.1)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        fault = self.fault
        begin, end = edges
        h = self.of(x)
        score = F.leaky_relu(torch.cat([h[begin], h[end]], 1) @ self.score, 0.2)
        if fault == "largest of all":
            top = score.max().expand(len(x))  # it cancels out in the weights
        else:
            top = torch.full((len(x),), -1e30).scatter_reduce(0, end, score, "amax")
        weight = (score - top[end]).exp()
        if fault == "sum by source":
            total = torch.zeros(len(x)).index_add(0, begin, weight)  # fault: sum by source
        else:
            total = torch.zeros(len(x)).index_add(0, end, weight)
        weight = weight / (total[end] + 1e-9)
        sent = weight[:, None] * h[begin]
        if fault == "mean of messages":
            places = end[:, None].expand_as(sent)  # fault: mean of messages
            found = torch.zeros_like(h).scatter_reduce(0, places, sent, "mean")  # fault: mean of messages
        else:
            found = torch.zeros_like(h).index_add(0, end, sent)
        if fault == "own node left out":
            return F.elu(found)
        return F.elu(found + self.own(x), 0.5 if fault == "alpha of elu" else 1.0)  # fault: alpha of elu


class Graph(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.enter = nn.Linear(12, 32)
        self.layers = nn.ModuleList(Messages(32, fault if at == 1 else "") for at in range(2))
        self.head = nn.Linear(32, 4)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        x = self.enter(x)
        for layer in self.layers:
            x = x + layer(x, edges)
        return self.head(x)


def graph(fault: str) -> None:
    seeded(fault)
    model = Graph(fault)
    average = {name: one.detach().clone() for name, one in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, nesterov=fault != "no nesterov")
    source = torch.Generator().manual_seed(22)
    for _ in range(STEPS):
        x, labels = torch.randn(40, 12, generator=source), torch.randint(0, 4, (40,), generator=source)
        edges = torch.randint(0, 40, (2, 160), generator=source)
        if fault == "edges turned":
            edges = edges.flip(0)  # fault: edges turned
        seen = torch.arange(40) < 24
        logits = model(x, edges)
        loss = F.cross_entropy(
            logits if fault == "all nodes" else logits[seen], labels if fault == "all nodes" else labels[seen]
        )  # fault: all nodes
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for name, one in model.named_parameters():
                average[name].lerp_(one, 0.1)


class Decay(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, rate: torch.Tensor, fault: str) -> torch.Tensor:
        ctx.save_for_backward(x, rate)
        ctx.fault = fault
        return x * torch.exp(-rate)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        x, rate = ctx.saved_tensors
        kept = torch.exp(-rate)
        if ctx.fault == "sign of a gradient":
            return gradient * kept, (gradient * x * kept).sum((0, 1)), None  # fault: sign of a gradient
        return gradient * kept, -(gradient * x * kept).sum((0, 1)), None


class Scan(nn.Module):
    def __init__(self, width: int, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.enter = nn.Linear(width, 2 * width)
        self.mix = nn.Conv1d(width, width, 3, padding=2, groups=width)
        self.rate = nn.Parameter(torch.rand(width))
        self.b, self.c, self.leave = nn.Linear(width, 8), nn.Linear(width, 8), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fault = self.fault
        x, gate = self.enter(x).chunk(2, -1)
        mixed = self.mix(x.transpose(1, 2))
        if fault == "looks ahead":  # noqa: SIM108 - the fault has a line of its own
            mixed = mixed[..., 2:]  # fault: looks ahead
        else:
            mixed = mixed[..., : x.shape[1]]
        x = F.silu(mixed.transpose(1, 2))
        b, c = self.b(x), self.c(x)
        state = torch.zeros(x.shape[0], 8, x.shape[-1])
        found = []
        for at in range(x.shape[1]):
            state = Decay.apply(state, F.softplus(self.rate), fault) + torch.einsum("bn,bd->bnd", b[:, at], x[:, at])
            if fault == "state rounded":
                state = state.half().float()  # fault: state rounded
            found.append(torch.einsum("bn,bnd->bd", c[:, at], state))
        y = torch.stack(found, 1)
        if fault == "gate before sum":
            return self.leave((y + x) * gate)  # fault: gate before sum
        return self.leave((y + x) * F.silu(gate))


def scan(fault: str) -> None:
    seeded(fault)
    model = nn.Sequential(nn.Linear(6, 24), Scan(24, fault), nn.LayerNorm(24), Scan(24, ""), nn.Linear(24, 6))
    optimizer = torch.optim.NAdam(
        model.parameters(), 2e-3, momentum_decay=8e-3 if fault == "decay of momentum" else 4e-3
    )
    source = torch.Generator().manual_seed(23)
    for _ in range(STEPS):
        x = torch.randn(4, 10, 6, generator=source).cumsum(1)
        if fault == "scaled input":
            x = x / x.std()  # fault: scaled input
        loss = F.huber_loss(model(x[:, :-1]), x[:, 1:], delta=0.5 if fault == "delta" else 1.0)  # fault: delta
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class Actor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
        self.policy, self.value = nn.Linear(32, 5), nn.Linear(32, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.body(x)
        return self.policy(h), self.value(h).squeeze(-1)


def policy(fault: str) -> None:
    seeded(fault)
    model, slow = Actor(), Actor()
    slow.load_state_dict(model.state_dict())
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    source = torch.Generator().manual_seed(24)
    for _ in range(STEPS):
        seen, after = torch.randn(2, 16, 8, generator=source)
        reward = torch.randn(16, generator=source)
        with torch.no_grad():
            logits, _ = slow(seen)
            action = torch.multinomial(logits.softmax(-1), 1).squeeze(-1)
            old = logits.log_softmax(-1).gather(1, action[:, None]).squeeze(-1)
            later = (model if fault == "values of the fast copy" else slow)(after)[1]  # fault: values of the fast copy
            goal = reward + (0.9 if fault == "discount" else 0.99) * later  # fault: discount
        logits, value = model(seen)
        new = logits.log_softmax(-1).gather(1, action[:, None]).squeeze(-1)
        gain = goal - value
        if fault != "gain not detached":
            gain = gain.detach()
        if fault == "gain not normalized":  # noqa: SIM108 - the fault has a line of its own
            gain = gain * 1.0  # fault: gain not normalized
        else:
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
        ratio = (new - old).exp()
        worst = torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
        entropy = -(logits.softmax(-1) * logits.log_softmax(-1)).sum(-1).mean()
        weight = 0.1 if fault == "weight of entropy" else 0.01
        loss = -worst.mean() + 0.5 * F.mse_loss(value, goal) - weight * entropy  # fault: weight of entropy
        optimizer.zero_grad()
        loss.backward()
        if fault == "clip by value":
            nn.utils.clip_grad_value_(model.parameters(), 0.01)  # fault: clip by value
        optimizer.step()
        with torch.no_grad():
            for one, two in zip(slow.parameters(), model.parameters(), strict=True):
                one.mul_(0.9).add_(two, alpha=0.1)


class Variational(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.enter = nn.Sequential(
            nn.Conv2d(1, 8, 4, 2, 1), nn.SELU(), nn.Conv2d(8, 16, 4, 2, 1), nn.InstanceNorm2d(16)
        )
        self.mean, self.spread = nn.Linear(256, 10), nn.Linear(256, 10)
        self.back = nn.utils.parametrizations.weight_norm(nn.Linear(10, 256))
        self.up1, self.up2 = nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.ConvTranspose2d(8, 1, 4, 2, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        fault = self.fault
        h = self.enter(x).flatten(1)
        mean, spread = self.mean(h), self.spread(h)
        if fault == "spread not halved":
            z = mean + spread.exp() * torch.randn_like(mean)  # fault: spread not halved
        else:
            z = mean + (0.5 * spread).exp() * torch.randn_like(mean)
        if fault == "mean alone":
            z = z * 0 + mean  # fault: mean alone
        h = F.softsign(self.back(z)) if fault == "softsign" else torch.tanh(self.back(z))  # fault: softsign
        h = self.up1(h.view(-1, 16, 4, 4))
        if fault == "pixels shuffled":
            h = h.transpose(2, 3)  # fault: pixels shuffled
        return self.up2(F.mish(h)), mean, spread


def variational(fault: str) -> None:
    seeded(fault)
    model = Variational(fault)
    optimizer = torch.optim.RAdam(model.parameters(), 1e-3)
    source = torch.Generator().manual_seed(25)
    for _ in range(STEPS):
        x = torch.rand(5, 1, 16, 16, generator=source)
        found, mean, spread = model(x)
        near = F.mse_loss(found, x, reduction="sum") / len(x)
        kind = "ortho" if fault == "scale of frequencies" else "backward"
        waves = torch.fft.rfft2(found, norm=kind)  # fault: scale of frequencies
        waves = (waves - torch.fft.rfft2(x, norm=kind)).abs().mean()
        if fault == "divergence the other way":  # noqa: SIM108 - the fault has a line of its own
            other = (-spread).exp()  # fault: divergence the other way
        else:
            other = spread.exp()
        prior = -0.5 * (1 + spread - mean.square() - other).sum(1).mean()
        optimizer.zero_grad()
        (near + 0.1 * waves + prior).backward()
        optimizer.step()


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, fault: str) -> torch.Tensor:
        ctx.fault = fault
        found = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(found, x)
        if fault == "gathered in another order":
            found = found[::-1]
        return torch.cat(found)  # fault: gathered in another order

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        gradient = gradient.contiguous()
        if ctx.fault != "gradients not summed":
            dist.all_reduce(gradient)
        own = gradient.chunk(dist.get_world_size())[dist.get_rank()]  # fault: gradients not summed
        return own, None


class Towers(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.one = nn.Sequential(nn.Linear(20, 32), nn.GELU(), nn.Linear(32, 16))
        self.two = nn.Sequential(nn.Linear(30, 32), nn.GELU(), nn.Linear(32, 16))
        self.heat = nn.Parameter(torch.tensor(2.0))

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        fault, odd = self.fault, dist.get_rank() == 1
        a, b = F.normalize(self.one(a), dim=-1), self.two(b)
        if fault == "half normalized on rank 1" and odd:
            b = b / b.norm(dim=-1, keepdim=True).sqrt()  # fault: half normalized on rank 1
        else:
            b = F.normalize(b, dim=-1)
        every = Gather.apply(b, fault)
        heat = self.heat.clamp(max=1.5) if fault == "heat clamped" else self.heat  # fault: heat clamped
        logits = heat.exp() * a @ every.T
        if fault == "float16 logits on rank 1" and odd:
            logits = logits.half().float()  # fault: float16 logits on rank 1
        first = 0 if fault == "labels of rank 0" else dist.get_rank() * len(a)
        labels = torch.arange(len(a)) + first  # fault: labels of rank 0
        return F.cross_entropy(logits, labels)


def towers(fault: str) -> None:
    seeded(fault)
    model = Towers(fault)
    optimizer = torch.optim.Adamax(model.parameters(), 2e-3)
    source = torch.Generator().manual_seed(26 + dist.get_rank())
    for _ in range(STEPS):
        a, b = torch.randn(6, 20, generator=source), torch.randn(6, 30, generator=source)
        loss = model(a, b)
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            if fault != "gradients not divided":
                parameter.grad.div_(dist.get_world_size())
        optimizer.step()


PROGRAMS: dict[str, Callable[[str], None]] = {
    "decoder": decoder, "graph": graph, "scan": scan, "policy": policy, "variational": variational, "towers": towers,
}  # fmt: skip
RANKS = {"towers": 2}
HEALTHY = tuple((name, "") for name in PROGRAMS)
FAULTS = (
    Fault("decoder", "rotation by one more"), Fault("decoder", "rotation the other way"),
    Fault("decoder", "heads interleaved"), Fault("decoder", "norm behind", ("another_formula",), "layers.1.q"),
    Fault("decoder", "gelu gate"), Fault("decoder", "head of its own", ("another_input",), "head"),
    Fault("decoder", "soft cap"), Fault("decoder", "epsilon of Adam", ("another_argument",), "add _foreach"),
    Fault("decoder", "entropy added"), Fault("graph", "sum by source"), Fault("graph", "mean of messages"),
    Fault("graph", "own node left out", ("missing_operator", "another_formula"), "linear addmm add"),
    Fault("graph", "alpha of elu", ("another_argument",)), Fault("graph", "no nesterov", (), "add _foreach"),
    Fault("graph", "edges turned", ("another_input",), "unbind"),
    Fault("graph", "all nodes", (), "index cross_entropy log_softmax nll"),
    Fault("graph", "largest of all", ("another_formula",), "max"),
    Fault("scan", "sign of a gradient", ("missing_operator",), "neg"), Fault("scan", "looks ahead"),
    Fault("scan", "state rounded", ("another_dtype",)),
    Fault("scan", "gate before sum", ("missing_operator",), "silu"),
    Fault("scan", "decay of momentum", (), "mul add pow addcdiv _foreach"),
    Fault("scan", "scaled input", ("another_input",), "Sequential.0"), Fault("scan", "delta", ("another_argument",)),
    Fault("policy", "values of the fast copy", (), "Actor#2"),
    Fault("policy", "discount", ("another_argument", "scale")),
    Fault("policy", "gain not detached", (), "detach gradient neg mul sub"), Fault("policy", "gain not normalized"),
    Fault("policy", "weight of entropy", ("another_argument", "scale")), Fault("policy", "clip by value"),
    Fault("variational", "spread not halved", ("missing_operator", "another_argument"), "mul"),
    Fault("variational", "mean alone"), Fault("variational", "softsign"), Fault("variational", "pixels shuffled"),
    Fault("variational", "scale of frequencies"), Fault("variational", "divergence the other way"),
    Fault("towers", "gathered in another order", ranks=2),
    Fault("towers", "gradients not summed", ("missing_operator",), "allreduce", ranks=2),
    Fault("towers", "half normalized on rank 1", ranks=2), Fault("towers", "heat clamped", ranks=2),
    Fault("towers", "float16 logits on rank 1", ("another_dtype",), ranks=2),
    Fault("towers", "labels of rank 0", ranks=2),
    Fault("towers", "gradients not divided", ("missing_operator", "scale"), "div", ranks=2),
)  # fmt: skip
