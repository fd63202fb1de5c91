"""Digits on two ranks: torchrun --nproc-per-node 2 ddp_digits.py"""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 48, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(48 * 7 * 7, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, x):
        return self.head(self.features(x))


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    right = sum((model(a).argmax(1) == b).sum().item() for a, b in zip(x.split(250), y.split(250)))
    model.train()
    return right / len(y)


def main():
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x, y = torch.randn(6000, 1, 28, 28), torch.randint(0, 10, (6000,))
    dataset = TensorDataset(x[:5500], y[:5500])
    sampler = DistributedSampler(dataset, shuffle=True, drop_last=True)
    loader = DataLoader(dataset, batch_size=32, sampler=sampler, drop_last=True)
    net = Net()
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    step = 0
    for epoch in range(10_000):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            step += 1
            if step % 50 == 0 and dist.get_rank() == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.3f}", flush=True)
        if epoch % 10 == 9:
            accuracy = torch.tensor([evaluate(net, x[5500:], y[5500:])])
            dist.all_reduce(accuracy)
            if dist.get_rank() == 0:
                print(f"accuracy {accuracy.item() / dist.get_world_size():.3f}", flush=True)


if __name__ == "__main__":
    main()
