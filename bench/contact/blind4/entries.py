"""What is wrong in each program of the fourth blind round, and where."""

from bench.contact.entries import Entry

ENTRIES = (
    Entry(
        name="leaf_disease",
        mistake=(
            "every 800x600 JPEG is decoded at full size for each sample only to be shrunk to "
            "72x72 (no draft mode, no cached small copies)"
        ),
        functions=("__getitem__",),
        causes=(
            "decoding of full-size JPEG images in the data set, in the training process",
            "image loading and resizing per sample; input pipeline",
        ),
        place="leaf_disease.py:44",
        gain=0.43,
        mended=(
            (
                "        image = Image.open(path)\n",
                ('        image = Image.open(path)\n        image.draft("RGB", (2 * SIZE, 2 * SIZE))\n'),
            ),
        ),
    ),
    Entry(
        name="ticket_routing",
        mistake=("the collator pads every batch to the maximum length of 160 although the texts are far shorter"),
        functions=("__call__",),
        causes=(
            "padding to max_length instead of to the longest of the batch",
            "most tokens computed are padding",
        ),
        place="ticket_routing.py:63",
        gain=0.67,
        mended=(
            (
                ('            padding="max_length",\n            max_length=MAX_LEN,\n'),
                '            padding="longest",\n',
            ),
        ),
    ),
    Entry(
        name="maze_dqn",
        mistake=(
            "the states of a replay batch are turned into a tensor from a tuple of numpy arrays, "
            "which copies element by element through Python"
        ),
        functions=("sample",),
        causes=(
            "torch.tensor of a list of numpy arrays",
            "slow conversion of replay memory rows to a tensor instead of np.stack",
        ),
        place="maze_dqn.py:81",
        gain=0.56,
        mended=(
            (
                "torch.tensor(rows.state, dtype=torch.float32)",
                "torch.tensor(np.stack(rows.state))",
            ),
        ),
    ),
    Entry(
        name="movie_rank",
        mistake=(
            "large embedding tables with dense gradients: each step zero-fills, accumulates and "
            "updates all 120000 rows for a few thousand used ones"
        ),
        functions=(
            "__init__",
            "train_one_epoch",
            "user",
            "item",
        ),
        causes=(
            "dense gradient of a large embedding (sparse=False)",
            "optimizer updates all rows of the embedding tables",
        ),
        place="movie_rank.py:25",
        gain=0.57,
        mended=(
            (
                "nn.Embedding(cfg.n_users, cfg.dim)",
                "nn.Embedding(cfg.n_users, cfg.dim, sparse=True)",
            ),
            (
                "nn.Embedding(cfg.n_items, cfg.dim)",
                "nn.Embedding(cfg.n_items, cfg.dim, sparse=True)",
            ),
        ),
    ),
    Entry(
        name="ddp_wordlm",
        mistake=(
            "gradient accumulation under DDP without no_sync: gradients are all-reduced in each "
            "of eight micro-batches instead of once per step"
        ),
        functions=("train_step",),
        causes=(
            "all-reduce in every micro-batch; missing no_sync with gradient accumulation",
            "too much gradient communication",
        ),
        ranks=2,
        place="ddp_wordlm.py:54",
        gain=0.31,
        mended=(
            (
                ("import argparse\nimport os\n"),
                ("import argparse\nimport contextlib\nimport os\n"),
            ),
            (
                (
                    "        logits = model(inputs)\n"
                    "        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())\n"
                    "        (loss / args.accumulate).backward()\n"
                ),
                (
                    "        last = micro == args.accumulate - 1\n"
                    "        with contextlib.nullcontext() if last else model.no_sync():\n"
                    "            logits = model(inputs)\n"
                    "            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())\n"
                    "            (loss / args.accumulate).backward()\n"
                ),
            ),
        ),
    ),
    Entry(
        name="reply_reinforce",
        mistake=("text is generated with use_cache=False, so the whole prefix is computed anew for each token"),
        functions=("rollout",),
        causes=(
            "generation without key-value cache",
            "recomputation of the prefix for every generated token",
        ),
        place="reply_reinforce.py:76",
        gain=0.585,
        mended=(
            (
                "use_cache=False",
                "use_cache=True",
            ),
        ),
    ),
    Entry(
        name="turbine_forecast",
        mistake="model and data are in float64",
        functions=("main",),
        causes=(
            "double precision (float64) where float32 suffices",
            "numpy float64 data and model.double()",
        ),
        place="turbine_forecast.py:74",
        gain=0.505,
        mended=(
            (
                "Forecaster().double()",
                "Forecaster()",
            ),
            (
                "torch.from_numpy(x), torch.from_numpy(y)",
                "torch.from_numpy(x).float(), torch.from_numpy(y).float()",
            ),
        ),
    ),
    Entry(
        name="spoken_commands",
        mistake=(
            "the phone error rate (Levenshtein distance in pure Python) is computed for the "
            "training batch in each step though logged only each 20th"
        ),
        functions=(
            "train_epoch",
            "phone_error_rate",
            "edit_distance",
        ),
        causes=(
            "metric computed in every training step",
            "edit distance in pure Python loops",
        ),
        place="spoken_commands.py:91",
        gain=0.44,
        mended=(
            (
                "        per_sum += phone_error_rate(logits.detach(), lengths, phones)\n",
                "",
            ),
            (
                "        if i % log_every == 0:\n",
                (
                    "        if i % log_every == 0:\n"
                    "            per = phone_error_rate(logits.detach(), lengths, phones)\n"
                ),
            ),
            (
                "per {per_sum / i:.3f}",
                "per {per:.3f}",
            ),
        ),
    ),
    Entry(
        name="citation_gcn",
        mistake=(
            "the adjacency matrix of a sparse graph is dense, so message passing is a full 2700x2700 matrix product"
        ),
        functions=(
            "forward",
            "normalized_adjacency",
        ),
        causes=(
            "dense matrix product with an almost empty adjacency matrix",
            "sparse matrix stored and multiplied as dense",
        ),
        place="citation_gcn.py:43",
        gain=0.835,
        mended=(
            (
                ("    adj = scale[:, None] * adj * scale[None, :]\n    return adj\n"),
                ("    adj = scale[:, None] * adj * scale[None, :]\n    return adj.to_sparse_csr()\n"),
            ),
        ),
    ),
    Entry(
        name="churn_tabular",
        mistake=(
            "a TensorDataset in memory is read row by row and collated by DataLoader (4096 rows "
            "per batch) instead of indexed by batch"
        ),
        functions=(
            "run",
            "train_fn",
        ),
        causes=(
            "per-row fetching and collating by DataLoader of an in-memory TensorDataset",
            ("data loading: many tiny index operations and stacking, thousands of small tensors per batch"),
        ),
        place="churn_tabular.py:95",
        gain=0.64,
        mended=(
            (
                "from torch.utils.data import DataLoader, TensorDataset",
                ("from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset"),
            ),
            (
                "    loader = DataLoader(train_ds, batch_size=CFG.batch_size, shuffle=True)\n",
                (
                    "    sampler = BatchSampler(RandomSampler(train_ds), CFG.batch_size, "
                    "drop_last=False)\n"
                    "    loader = DataLoader(train_ds, batch_size=None, sampler=sampler)\n"
                ),
            ),
        ),
    ),
    Entry(
        name="pendulum_ode",
        mistake="autograd anomaly detection is left on (Trainer(detect_anomaly=True))",
        functions=("main",),
        causes=(
            "anomaly detection enabled; debug mode of autograd left on",
            "stack traces recorded for every operation and NaN checks in backward",
        ),
        place="pendulum_ode.py:99",
        gain=0.8,
        mended=(
            (
                "detect_anomaly=True",
                "detect_anomaly=False",
            ),
        ),
    ),
    Entry(
        name="ddpm_glyphs",
        mistake=(
            "activation checkpointing is on though memory is plentiful, so each residual block's "
            "forward is computed twice"
        ),
        functions=(
            "forward",
            "main",
        ),
        causes=(
            "activation (gradient) checkpointing that is not needed",
            "forward recomputed during backward",
        ),
        ranks=2,
        place="ddpm_glyphs.py:48",
        gain=0.23,
        mended=(
            (
                "argparse.BooleanOptionalAction, default=True",
                "argparse.BooleanOptionalAction, default=False",
            ),
        ),
    ),
    Entry(
        name="spectra_vae",
        mistake="histograms of all weights and gradients are computed and written in each step",
        functions=(
            "histogram",
            "log_model",
            "fit",
        ),
        causes=(
            "logging of histograms in every step",
            "too frequent logging of weights and gradients with np.histogram",
        ),
        place="spectra_vae.py:36",
        gain=0.49,
        mended=(
            (
                "histograms_every: int = 1\n",
                "histograms_every: int = 200\n",
            ),
        ),
    ),
    Entry(
        name="face_embed",
        mistake=(
            "the batch-hard triplet loss loops in Python over the anchors instead of working on "
            "the distance matrix as a whole"
        ),
        functions=("batch_hard_triplet_loss",),
        causes=(
            "Python loop over the samples with many tiny operations",
            "loss not vectorised",
        ),
        place="face_embed.py:38",
        gain=0.51,
        mended=(
            (
                (
                    "    losses = []\n"
                    "    for i in range(len(labels)):\n"
                    "        same = labels == labels[i]\n"
                    "        positive = distances[i][same].max()\n"
                    "        negative = distances[i][~same].min()\n"
                    "        losses.append(F.relu(positive - negative + margin))\n"
                    "    return torch.stack(losses).mean()\n"
                ),
                (
                    "    same = labels[:, None] == labels[None, :]\n"
                    '    positive = distances.masked_fill(~same, float("-inf")).amax(1)\n'
                    '    negative = distances.masked_fill(same, float("inf")).amin(1)\n'
                    "    return F.relu(positive - negative + margin).mean()\n"
                ),
            ),
        ),
    ),
    Entry(
        name="flower_head",
        mistake=(
            "only the head is trained, but the frozen backbone runs with gradients, so the full "
            "backward pass through it is computed and thrown away"
        ),
        functions=(
            "forward",
            "__init__",
        ),
        causes=(
            "gradients computed for a frozen backbone; missing no_grad or requires_grad_(False)",
            "unneeded backward through parameters that the optimizer does not have",
        ),
        place="flower_head.py:49",
        gain=0.69,
        mended=(
            (
                "        features = self.backbone(x)\n",
                ("        with torch.no_grad():\n            features = self.backbone(x)\n"),
            ),
        ),
    ),
    Entry(
        name="nodule_seg",
        mistake="gc.collect() (a full garbage collection) is run after each step",
        functions=("train_one_epoch",),
        causes=(
            "explicit garbage collection in every step",
            "gc.collect",
        ),
        place="nodule_seg.py:95",
        gain=0.75,
        mended=(
            (
                ("        torch.cuda.empty_cache()\n        gc.collect()\n"),
                "",
            ),
        ),
    ),
    Entry(
        name="char_gpt",
        mistake="",
    ),
    Entry(
        name="cartpole_ppo",
        mistake="",
    ),
    Entry(
        name="ddp_textures",
        mistake="",
        ranks=2,
    ),
    Entry(
        name="store_sales",
        mistake="",
    ),
)
