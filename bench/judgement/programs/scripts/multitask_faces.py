"""Age, gender and landmarks from face crops: one trunk, three heads."""
import logging
import torch
from torch import nn
import torch.nn.functional as F

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
log = logging.getLogger("faces")


def block(cin, cout, stride):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU(inplace=True),
    )


class FaceNet(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.trunk = nn.Sequential(
            block(3, width, 2),
            block(width, width * 2, 1),
            block(width * 2, width * 2, 2),
            block(width * 2, width * 4, 1),
            block(width * 4, width * 4, 2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        d = width * 4
        self.age = nn.Sequential(nn.Linear(d, 64), nn.ReLU(), nn.Linear(64, 1))
        self.gender = nn.Sequential(nn.Linear(d, 64), nn.ReLU(), nn.Linear(64, 2))
        self.landmarks = nn.Sequential(nn.Linear(d, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, x):
        z = self.trunk(x)
        return self.age(z).squeeze(1), self.gender(z), self.landmarks(z)


class FakeFaces:
    """Crops that live in memory; real ones come from an LMDB that fits in memory as well."""

    def __init__(self, n=2048, size=48, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.randn(n, 3, size, size, generator=g)
        self.age = torch.rand(n, generator=g) * 80
        self.gender = torch.randint(0, 2, (n,), generator=g)
        self.pts = torch.rand(n, 10, generator=g)

    def batches(self, bs, gen):
        while True:
            perm = torch.randperm(len(self.x), generator=gen)
            for i in range(0, len(perm) - bs + 1, bs):
                idx = perm[i : i + bs]
                yield self.x[idx], self.age[idx], self.gender[idx], self.pts[idx]


def losses(model, batch):
    x, age, gender, pts = batch
    p_age, p_gender, p_pts = model(x)
    return {
        "age": F.smooth_l1_loss(p_age, age / 80.0),
        "gender": F.cross_entropy(p_gender, gender),
        "landmarks": F.mse_loss(p_pts, pts),
    }


WEIGHTS = {"age": 1.0, "gender": 0.5, "landmarks": 2.0}


def train_step(model, opt, batch):
    opt.zero_grad(set_to_none=True)
    terms = losses(model, batch)
    for name, term in terms.items():
        (WEIGHTS[name] * term).backward(retain_graph=True)
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    opt.step()
    return terms


def main():
    torch.manual_seed(0)
    model = FaceNet()
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.StepLR(opt, step_size=5000, gamma=0.3)
    data = FakeFaces()
    gen = torch.Generator().manual_seed(1)
    for step, batch in enumerate(data.batches(32, gen)):
        terms = train_step(model, opt, batch)
        sched.step()
        if step % 50 == 0:
            log.info("step %d  %s", step, {k: round(v.item(), 4) for k, v in terms.items()})
        if step > 2_000_000:
            break


if __name__ == "__main__":
    main()
