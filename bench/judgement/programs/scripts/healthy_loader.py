"""A wide network fed by workers, without a planted mistake."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __init__(self, n=20000):
        self.x, self.y = torch.randn(n, 256), torch.randint(20, (n,))

    def __len__(self):
        return len(self.x)

    def __getitems__(self, indices):
        at = torch.as_tensor(indices)
        return self.x[at], self.y[at]


def same(batch):
    return batch


def main():
    torch.manual_seed(0)
    loader = DataLoader(Rows(), batch_size=512, shuffle=True, num_workers=1, persistent_workers=True, collate_fn=same)
    model = nn.Sequential(nn.Linear(256, 1536), nn.ReLU(), nn.Linear(1536, 1536), nn.ReLU(), nn.Linear(1536, 20))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    step = 0
    for epoch in range(10000):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            step += 1
            if step % 50 == 0:
                print(step, loss.item(), flush=True)


if __name__ == "__main__":
    main()
