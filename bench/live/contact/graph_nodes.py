"""Graph convolution for node classes on a stochastic block model."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(6)

NODES, COMMUNITIES, FEATURES = 3000, 7, 128
STEPS = 1100


def block_model():
    label = torch.randint(0, COMMUNITIES, (NODES,))
    src = torch.randint(0, NODES, (24 * NODES,))
    dst = torch.randint(0, NODES, (24 * NODES,))
    same = label[src] == label[dst]
    keep = same | (torch.rand(len(src)) < 0.15)
    src, dst = src[keep], dst[keep]
    loops = torch.arange(NODES)
    src, dst = torch.cat([src, dst, loops]), torch.cat([dst, src, loops])
    return label, src, dst


def normalised_adjacency(src, dst):
    degree = torch.bincount(dst, minlength=NODES).float()
    weight = (degree[src] * degree[dst]).rsqrt()
    a = torch.sparse_coo_tensor(torch.stack([dst, src]), weight, (NODES, NODES))
    return a.coalesce().to_sparse_csr()


class GCN(nn.Module):
    def __init__(self, hidden=160):
        super().__init__()
        self.l1 = nn.Linear(FEATURES, hidden)
        self.l2 = nn.Linear(hidden, hidden)
        self.l3 = nn.Linear(hidden, COMMUNITIES)

    def forward(self, a, x):
        x = F.relu(a @ self.l1(x))
        x = F.dropout(x, 0.3, self.training)
        x = F.relu(a @ self.l2(x))
        return a @ self.l3(x)


def main():
    label, src, dst = block_model()
    a = normalised_adjacency(src, dst)
    centre = torch.randn(COMMUNITIES, FEATURES)
    x = 0.2 * centre[label] + torch.randn(NODES, FEATURES)
    train = torch.randperm(NODES)[:600]
    model = GCN()
    opt = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4, fused=True)
    for step in range(STEPS):
        model.train()
        out = model(a, x)
        loss = F.cross_entropy(out[train], label[train])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if (step + 1) % 100 == 0:
            model.eval()
            with torch.no_grad():
                acc = (model(a, x).argmax(1) == label).float().mean()
            print(f"step {step + 1} loss {loss.item():.3f} acc {acc.item():.3f}")


if __name__ == "__main__":
    main()
