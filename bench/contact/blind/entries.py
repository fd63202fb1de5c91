"""What is wrong in each program of the blind round, where, and what mends it: written before any capture of them."""

from __future__ import annotations

from bench.contact.entries import Entry

_LOADING = (
    "data_loading", "data_processing",
    "data_reading",
)  # fmt: skip
ENTRIES = (
    Entry(
        name="sentiment", mistake="each batch is padded to 128 words where reviews have 8 to 30",
        functions=("collate",), causes=("padding",), gain=0.75, place="sentiment.py:31",
        mended=(("torch.full((len(batch), MAX_LEN), PAD)",
                 "torch.full((len(batch), max(len(tokens) for tokens, _ in batch)), PAD)"),),
    ),
    Entry(
        name="cifar", mistake="the search for anomalies of autograd was left on",
        functions=("<module>",), causes=("anomaly detection",), gain=0.31, place="cifar.py:7",
        mended=(("torch.autograd.set_detect_anomaly(True)", ""),),
    ),
    Entry(
        name="ddp_lm", mistake="gradients are reduced in each of six micro-batches", ranks=2,
        causes=("gradients reduced in every micro-batch",), gain=0.33, place="ddp_lm.py:60",
        mended=(
            ("        for _ in range(ACCUMULATE):", "        for micro in range(ACCUMULATE):"),
            ("            loss = F.cross",
             "            model.require_backward_grad_sync = micro == ACCUMULATE - 1\n            loss = F.cross"),
        ),
    ),
    Entry(
        name="birds", mistake="the backbone is not trained, but gradients of it are computed",
        functions=("forward", "main"), causes=("gradients that nothing uses",), gain=0.45, place="birds.py:46",
        mended=(("        features = self.backbone(x)",
                 "        with torch.no_grad():\n            features = self.backbone(x)"),),
    ),
    Entry(
        name="churn", mistake="the model computes in float64, as the table of numpy happens to be",
        functions=("main",), causes=("float64", "slow_type"), gain=0.43, place="churn.py:39",
        mended=((".double()", ""), ("torch.from_numpy(numbers)", "torch.from_numpy(numbers).float()"),
                ("torch.from_numpy(target)", "torch.from_numpy(target).float()")),
    ),
    Entry(
        name="ddpm", mistake="the averaged weights are copied and made anew in float64 in each step",
        functions=("update",), gain=0.20, place="ddpm.py:42",
        mended=(("        state = {k: v.clone() for k, v in model.state_dict().items()}\n        averaged = {}\n"
                 "        for k, v in state.items():\n"
                 "            averaged[k] = (self.decay * self.shadow[k].double() + (1 - self.decay) * v.double())"
                 ".float()\n        self.shadow = averaged",
                 "        for k, v in model.state_dict().items():\n"
                 "            self.shadow[k].lerp_(v, 1 - self.decay)"),),
    ),
    Entry(
        name="citations", mistake="the adjacency is multiplied as a dense matrix, of which 0.3 % is not zero",
        functions=("normalized_adjacency", "forward"), causes=("dense product of a sparse matrix",),
        gain=0.85, place="citations.py:23", mended=(("adjacency.to_dense()", "adjacency.to_sparse_csr()"),),
    ),
    Entry(
        name="traffic", mistake="200 heads are called one by one instead of as one product over all sensors",
        functions=("forward",), causes=("many small operators", "small_operators"), gain=0.56, place="traffic.py:32",
        mended=(("        self.heads = nn.ModuleList(nn.Linear(inputs, horizon) for _ in range(sensors))",
                 "        bound = inputs ** -0.5\n"
                 "        weight = torch.empty(inputs, sensors * horizon).uniform_(-bound, bound)\n"
                 "        bias = torch.empty(sensors * horizon).uniform_(-bound, bound)\n"
                 "        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)\n"
                 "        self.horizon = horizon"),
                ("        return torch.stack([head(x) for head in self.heads], 2)",
                 "        return torch.addmm(self.bias, x, self.weight).view(len(x), self.horizon, -1)")),
    ),
    Entry(
        name="a2c", mistake="the policy is asked for each environment by itself",
        functions=("select_actions",), gain=0.86, place="a2c.py:45",
        mended=(("        for obs in observations:\n            logits, _ = model(torch.tensor(obs).unsqueeze(0))\n"
                 "            actions.append(Categorical(logits=logits).sample().squeeze(0))\n"
                 "    return torch.stack(actions)",
                 "        logits, _ = model(torch.tensor(observations))\n"
                 "    return Categorical(logits=logits).sample()"),),
    ),
    Entry(
        name="chatgen", mistake="the whole text is computed anew for each token, the cache is not used",
        functions=("generate",), causes=("generation without a cache",), gain=0.77, place="chatgen.py:49",
        mended=(("    ids = prompts\n", "    ids, token, past = prompts, prompts, None\n"),
                ("logits, _ = model(ids)", "logits, past = model(token, past)")),
    ),
    Entry(
        name="trainer", mistake="activations are computed twice for memory that is not short",
        functions=("forward",), causes=("recomputation", "activation recomputation"), gain=0.17, place="trainer.py:22",
        mended=(("gradient_checkpointing: bool = True", "gradient_checkpointing: bool = False"),),
    ),
    Entry(
        name="plankton", mistake="the worker of the loader is started anew for each epoch of four batches",
        functions=("train_epoch",), causes=("workers_started_anew", "data loader start"),
        gain=0.44, place="plankton.py:56",
        mended=(("num_workers=1)", "num_workers=1, persistent_workers=True)"),),
    ),
    Entry(
        name="reviews", mistake="the file is read from its beginning for each row",
        functions=("__getitem__",), causes=_LOADING, gain=0.50, place="reviews.py:35",
        mended=(("            self.n = sum(1 for _ in file)",
                 "            self.rows = file.readlines()\n        self.n = len(self.rows)"),
                ("        with open(self.path) as file:\n            line = next(itertools.islice(file, i, None))\n",
                 "        line = self.rows[i]\n")),
    ),
    Entry(
        name="translate", mistake="a second forward pass for the accuracy of the same batch",
        functions=("batch_accuracy",), causes=("forward pass twice",), gain=0.17, place="translate.py:29",
        mended=(("predicted = model(source, target[:, :-1]).argmax(-1)", "predicted = model.argmax(-1)"),
                ("* batch_accuracy(model, source", "* batch_accuracy(logits, source")),
    ),
    Entry(
        name="keywords", mistake="garbage is collected by hand after each batch",
        functions=("train_one_batch",), causes=("garbage_collection", "garbage collection of the host"),
        gain=0.96, place="keywords.py:68", mended=(("    gc.collect()\n", ""),),
    ),
    Entry(
        name="movies", mistake="validation runs each four micro-batches, which is each step",
        functions=("validate", "main"), causes=("validation", "evaluation in the loop"),
        gain=0.60, place="movies.py:50",
        mended=(("if i % eval_every == 0", "if i % (100 * eval_every) == 0"),),
    ),
    Entry(name="faces", mistake=""),
    Entry(name="ddp_digits", mistake="", ranks=2),
    Entry(name="stories", mistake=""),
    Entry(name="distil", mistake=""),
)  # fmt: skip
"""In the order in which they run."""
