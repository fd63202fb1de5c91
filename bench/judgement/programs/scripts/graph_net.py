"""Graph convolution on one citation-like graph."""

import torch
import torch.nn.functional as F
from torch import nn

NODES, EDGES, FEATURES, CLASSES = 4000, 400000, 64, 7


class GCNLayer(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.lin = nn.Linear(i, o)

    def forward(self, x, edge_index):
        adj = normalized_adjacency(edge_index, x.size(0))
        return torch.sparse.mm(adj, self.lin(x))


def normalized_adjacency(edge_index, n):
    loops = torch.arange(n).repeat(2, 1)
    index = torch.cat([edge_index, loops], 1)
    adj = torch.sparse_coo_tensor(index, torch.ones(index.size(1)), (n, n)).coalesce()
    degree = torch.sparse.sum(adj, 1).to_dense()
    row, col = adj.indices()
    values = adj.values() / (degree[row] * degree[col]).sqrt()
    return torch.sparse_coo_tensor(adj.indices(), values, (n, n))


class GCN(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.layers = nn.ModuleList([GCNLayer(FEATURES, hidden), GCNLayer(hidden, CLASSES)])

    def forward(self, x, edge_index):
        x = F.relu(self.layers[0](x, edge_index))
        return self.layers[1](F.dropout(x, training=self.training), edge_index)


def main():
    torch.manual_seed(0)
    edge_index = torch.randint(NODES, (2, EDGES))
    x, y = torch.randn(NODES, FEATURES), torch.randint(CLASSES, (NODES,))
    train_mask = torch.rand(NODES) < 0.5
    model = GCN()
    opt = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for epoch in range(100000):
        model.train()
        out = model(x, edge_index)
        loss = F.cross_entropy(out[train_mask], y[train_mask])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if epoch % 20 == 0:
            acc = (out.argmax(1) == y)[~train_mask].float().mean()
            print(epoch, loss.item(), acc.item(), flush=True)


if __name__ == "__main__":
    main()
