"""Distils a larger convolutional network into a small one."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def network(widths, classes=10):
    layers, cin = [], 3
    for w in widths:
        layers += [nn.Conv2d(cin, w, 3, padding=1, bias=False), nn.BatchNorm2d(w), nn.ReLU(inplace=True)]
        layers += [nn.MaxPool2d(2)]
        cin = w
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(cin, classes))


class Distiller:
    def __init__(self, teacher, student, temperature=4.0, alpha=0.7):
        self.teacher = teacher.eval().requires_grad_(False)
        self.student = student
        self.temperature, self.alpha = temperature, alpha

    def loss(self, x, y):
        with torch.inference_mode():
            wanted = F.log_softmax(self.teacher(x) / self.temperature, 1)
        wanted = wanted.clone()
        logits = self.student(x)
        got = F.log_softmax(logits / self.temperature, 1)
        soft = F.kl_div(got, wanted, log_target=True, reduction="batchmean") * self.temperature ** 2
        return self.alpha * soft + (1 - self.alpha) * F.cross_entropy(logits, y), logits


def main():
    torch.manual_seed(0)
    x, y = torch.randn(4000, 3, 32, 32), torch.randint(0, 10, (4000,))
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True, drop_last=True)
    distiller = Distiller(network((32, 48, 64)), network((16, 24, 32)))
    optimizer = torch.optim.SGD(distiller.student.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10_000)
    step, running = 0, torch.zeros(())
    for epoch in range(10_000):
        for images, labels in loader:
            loss, _ = distiller.loss(images, labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            scheduler.step()
            running += loss.detach()
            step += 1
            if step % 50 == 0:
                print(f"epoch {epoch} step {step} loss {running.item() / 50:.3f}", flush=True)
                running.zero_()


if __name__ == "__main__":
    main()
