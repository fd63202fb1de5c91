"""Semi-supervised node classification: a three-layer GCN, full batch."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def make_graph(n=2500, degree=8, classes=7, features=200, seed=0):
    g = torch.Generator().manual_seed(seed)
    label = torch.randint(0, classes, (n,), generator=g)
    src = torch.randint(0, n, (n * degree,), generator=g)
    dst = torch.randint(0, n, (n * degree,), generator=g)
    keep = (label[src] == label[dst]) | (torch.rand(len(src), generator=g) < 0.3)
    src, dst = src[keep], dst[keep]
    loops = torch.arange(n)
    index = torch.stack([torch.cat([src, dst, loops]), torch.cat([dst, src, loops])])
    x = torch.randn(n, features, generator=g) + F.one_hot(label, classes).float() @ torch.randn(classes, features, generator=g)
    mask = torch.rand(n, generator=g) < 0.3
    return x, index, label, mask


def normalise(index, n):
    """D^-1/2 A D^-1/2, once, as CSR."""
    degree = torch.zeros(n).index_add_(0, index[0], torch.ones(index.shape[1]))
    value = degree[index[0]].rsqrt() * degree[index[1]].rsqrt()
    return torch.sparse_coo_tensor(index, value, (n, n)).coalesce().to_sparse_csr()


class Propagate(torch.autograd.Function):
    """The adjacency is symmetric: the gradient is the same product, and no transpose is made."""

    @staticmethod
    def forward(ctx, adj, h):
        ctx.adj = adj
        return adj @ h

    @staticmethod
    def backward(ctx, grad):
        return None, ctx.adj @ grad


class GCN(nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        self.w1 = nn.Linear(features, hidden)
        self.w2 = nn.Linear(hidden, hidden)
        self.w3 = nn.Linear(hidden, classes)

    def forward(self, adj, x):
        h = F.relu(Propagate.apply(adj, self.w1(F.dropout(x, 0.2, self.training))))
        h = F.relu(Propagate.apply(adj, self.w2(h)))
        return Propagate.apply(adj, self.w3(h))


@torch.no_grad()
def accuracy(model, adj, x, label, mask):
    model.eval()
    hit = (model(adj, x).argmax(1) == label)[~mask].float().mean().item()
    model.train()
    return hit


def main():
    torch.manual_seed(0)
    x, index, label, mask = make_graph()
    adj = normalise(index, len(x))
    model = GCN(x.shape[1], 256, 7)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4)
    train = mask.nonzero().squeeze(1)
    target = label[train]
    for epoch in range(10_000_000):
        opt.zero_grad()
        loss = F.cross_entropy(model(adj, x)[train], target)
        loss.backward()
        opt.step()
        if epoch % 100 == 0:
            print(f"epoch {epoch} loss {loss.item():.4f} test {accuracy(model, adj, x, label, mask):.3f}", flush=True)


if __name__ == "__main__":
    main()
