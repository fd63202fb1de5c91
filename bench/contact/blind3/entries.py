"""What is wrong in each program of the third blind round, and where."""

from bench.contact.entries import Entry

ENTRIES = (
    Entry(
        name="bert_mlm",
        mistake=(
            "Python loops over every token of the batch to choose and replace the masked ones, "
            "with single element reads and writes of tensors, instead of a few vectorised "
            "operations"
        ),
        functions=("mask_tokens",),
        place="bert_mlm.py:93",
        gain=0.33,
        mended=(
            (
                (
                    "    batch, length = ids.shape\n"
                    "    for i in range(batch):\n"
                    "        for j in range(length):\n"
                    "            token = ids[i, j]\n"
                    "            if token in (PAD, CLS, SEP):\n"
                    "                continue\n"
                    "            if torch.rand(1).item() >= mlm_prob:\n"
                    "                continue\n"
                    "            labels[i, j] = token\n"
                    "            dice = torch.rand(1).item()\n"
                    "            if dice < 0.8:\n"
                    "                inputs[i, j] = MASK\n"
                    "            elif dice < 0.9:\n"
                    "                inputs[i, j] = torch.randint(NUM_SPECIAL, vocab, (1,)).item()\n"
                ),
                (
                    "    chosen = (torch.rand(ids.shape) < mlm_prob) & (ids != PAD) & (ids != CLS) & "
                    "(ids != SEP)\n"
                    "    labels[chosen] = ids[chosen]\n"
                    "    dice = torch.rand(ids.shape)\n"
                    "    inputs[chosen & (dice < 0.8)] = MASK\n"
                    "    swapped = chosen & (dice >= 0.8) & (dice < 0.9)\n"
                    "    inputs[swapped] = torch.randint(NUM_SPECIAL, vocab, (int(swapped.sum()),))\n"
                ),
            ),
        ),
    ),
    Entry(
        name="keyword_audio",
        mistake=(
            "every sample reads the whole recording of 12 s and computes its spectrogram, of which one second is kept"
        ),
        functions=("load_clip",),
        place="keyword_audio.py:93",
        gain=0.46,
        mended=(
            (
                "            raw = source.readframes(source.getnframes())\n",
                (
                    "            source.setpos(int(begin * SAMPLE_RATE) // HOP * HOP)\n"
                    "            raw = source.readframes(int(CLIP_SECONDS * SAMPLE_RATE))\n"
                ),
            ),
            (
                (
                    "        features = self.logmel(wav)\n"
                    "        first = int(begin * SAMPLE_RATE / HOP)\n"
                    "        return features[:, first : first + self.frames]\n"
                ),
                "        return self.logmel(wav)[:, : self.frames]\n",
            ),
        ),
    ),
    Entry(
        name="vqvae",
        mistake=(
            "distances to the codebook by broadcasting to vectors x codes x dimensions, instead of "
            "a product of matrices"
        ),
        functions=("nearest",),
        place="vqvae.py:73",
        gain=0.55,
        mended=(
            (
                "        distances = ((flat.unsqueeze(1) - self.codebook.unsqueeze(0)) ** 2).sum(dim=-1)\n",
                "        distances = self.codebook.square().sum(1) - 2 * flat @ self.codebook.T\n",
            ),
        ),
    ),
    Entry(
        name="hinge_gan",
        mistake=(
            "the fake batch is not detached in the step of the discriminator, whose backward goes "
            "through the generator too"
        ),
        functions=("discriminator_step",),
        place="hinge_gan.py:110",
        gain=0.47,
        mended=(
            (
                "real, fake = self.real_batch(), self.fake_batch()\n",
                "real, fake = self.real_batch(), self.fake_batch().detach()\n",
            ),
        ),
    ),
    Entry(
        name="load_forecast",
        mistake="data of numpy in float64, and the model made double to match",
        functions=("__init__",),
        causes=("training in double precision (float64)",),
        place="load_forecast.py:106",
        gain=0.62,
        mended=(
            ("torch.from_numpy(scaled)\n", "torch.from_numpy(scaled).float()\n"),
            ("torch.from_numpy(calendar(len(load)))\n", "torch.from_numpy(calendar(len(load))).float()\n"),
            ("torch.from_numpy(weather)\n", "torch.from_numpy(weather).float()\n"),
            ("hidden=args.hidden).double()", "hidden=args.hidden)"),
        ),
    ),
    Entry(
        name="item2vec",
        mistake=("tables of factors laid out (dimensions, items), so a look-up gathers single columns, strided"),
        functions=("lookup",),
        place="item2vec.py:65",
        gain=0.48,
        mended=(
            (
                "nn.Parameter(torch.randn(dim, num_items) / dim)",
                "nn.Parameter(torch.randn(dim, num_items).T.contiguous() / dim)",
            ),
            ("nn.Parameter(torch.zeros(dim, num_items))", "nn.Parameter(torch.zeros(num_items, dim))"),
            ("return table[:, index].movedim(0, -1)", "return nnf.embedding(index, table)"),
            ("torch.arange(self.center.shape[1])", "torch.arange(self.center.shape[0])"),
        ),
    ),
    Entry(
        name="unet_landcover",
        mistake=(
            "four scores of scikit-learn over all pixels in every step, instead of one confusion matrix by bincount"
        ),
        functions=("map_scores",),
        place="unet_landcover.py:101",
        gain=0.39,
        mended=(
            ("from sklearn.metrics import accuracy_score, cohen_kappa_score, f1_score, jaccard_score\n", ""),
            (
                (
                    "    truth, guess = target.flatten().numpy(), pred.flatten().numpy()\n"
                    "    return {\n"
                    '        "OA": accuracy_score(truth, guess),\n'
                    '        "kappa": cohen_kappa_score(truth, guess),\n'
                    '        "F1": f1_score(truth, guess, average="macro"),\n'
                    '        "mIoU": jaccard_score(truth, guess, average="macro"),\n'
                    "    }\n"
                ),
                (
                    "    count = len(CLASSES)\n"
                    "    table = torch.bincount((target * count + pred).flatten(), "
                    "minlength=count**2).view(count, count).double()\n"
                    "    hits, sizes = table.diag(), table.sum(0) + table.sum(1)\n"
                    "    seen = sizes > 0\n"
                    "    agreed = (hits.sum() / table.sum()).item()\n"
                    "    chance = (table.sum(0) @ table.sum(1) / table.sum().square()).item()\n"
                    "    return {\n"
                    '        "OA": agreed,\n'
                    '        "kappa": (agreed - chance) / (1 - chance),\n'
                    '        "F1": (2 * hits / sizes)[seen].mean().item(),\n'
                    '        "mIoU": (hits / (sizes - hits))[seen].mean().item(),\n'
                    "    }\n"
                ),
            ),
        ),
    ),
    Entry(
        name="reinforce_pendulum",
        mistake=("the return of every step summed anew to the end of the episode: quadratic in its length, in Python"),
        functions=("discounted_returns",),
        place="reinforce_pendulum.py:93",
        gain=0.47,
        mended=(
            (
                (
                    "        length = len(episode)\n"
                    "        returns.append([sum(GAMMA ** (k - t) * episode[k] for k in range(t, "
                    "length)) for t in range(length)])\n"
                ),
                (
                    "        total, backward = 0.0, []\n"
                    "        for reward in reversed(episode):\n"
                    "            total = reward + GAMMA * total\n"
                    "            backward.append(total)\n"
                    "        returns.append(backward[::-1])\n"
                ),
            ),
        ),
    ),
    Entry(
        name="hf_tickets",
        mistake=("every batch padded to the longest length allowed (128) where the texts have about 25 tokens"),
        functions=("__call__",),
        causes=("padding to a fixed length: most tokens of a batch are padding",),
        place="hf_tickets.py:87",
        gain=0.64,
        mended=(('padding="max_length",', 'padding="longest",'),),
    ),
    Entry(
        name="lit_churn",
        mistake="anomaly detection of autograd left on",
        functions=("main",),
        causes=("anomaly detection of autograd is on",),
        place="lit_churn.py:142",
        gain=0.51,
        mended=(("        detect_anomaly=True,\n", ""),),
    ),
    Entry(
        name="gcn_citations",
        mistake=("the normalised adjacency of a graph that never changes is built anew in every convolution"),
        functions=("normalized_adjacency", "forward"),
        place="gcn_citations.py:51",
        gain=0.36,
        mended=(
            (
                ("        self.bias = nn.Parameter(torch.zeros(outputs))\n        nn.init"),
                (
                    "        self.bias = nn.Parameter(torch.zeros(outputs))\n"
                    "        self.adjacency = None\n"
                    "        nn.init"
                ),
            ),
            (
                (
                    "        adjacency = normalized_adjacency(edges, x.shape[0])\n"
                    "        return torch.sparse.mm(adjacency, x"
                ),
                (
                    "        if self.adjacency is None:\n"
                    "            self.adjacency = normalized_adjacency(edges, x.shape[0])\n"
                    "        return torch.sparse.mm(self.adjacency, x"
                ),
            ),
        ),
    ),
    Entry(
        name="ddp_cells",
        mistake=("gradients accumulated over micro batches without no_sync(): all-reduced after each of them"),
        functions=("train_step", "backward"),
        causes=("all-reduce of gradients after every micro batch (no_sync() missing)",),
        ranks=2,
        place="ddp_cells.py:92",
        gain=0.31,
        mended=(
            (
                ("        for _ in range(self.args.accumulate):\n            total += self.backward(kl_weight)\n"),
                (
                    "        with self.model.no_sync():\n"
                    "            for _ in range(self.args.accumulate - 1):\n"
                    "                total += self.backward(kl_weight)\n"
                    "        total += self.backward(kl_weight)\n"
                ),
            ),
        ),
    ),
    Entry(
        name="ctr_deepfm",
        mistake=(
            "area under the curve of everything seen in the epoch computed in every step though "
            "printed in one of 40; grows with the epoch"
        ),
        functions=("run_epoch", "compute"),
        place="ctr_deepfm.py:99",
        gain=0.6,
        mended=(
            (
                ("        current = auc.compute()\n        if step % 40 == 0:\n"),
                ("        if step % 40 == 0:\n            current = auc.compute()\n"),
            ),
        ),
    ),
    Entry(
        name="distill_tiny",
        mistake="weights written with compression (savez_compressed) every five steps",
        functions=("save_snapshot",),
        place="distill_tiny.py:106",
        gain=0.33,
        mended=(("np.savez_compressed(", "np.savez("),),
    ),
    Entry(
        name="simclr_prefetch",
        mistake=(
            "the thread that prefetches spins while the queue is full, and takes the interpreter "
            "and the core from training"
        ),
        functions=("produce",),
        place="simclr_prefetch.py:64",
        gain=0.33,
        mended=(
            (("            if self.ready.full():\n                time.sleep(0)\n                continue\n"), ""),
        ),
    ),
    Entry(
        name="pointnet_parts",
        mistake=("worker processes of the loader are spawned anew for every short epoch (persistent_workers missing)"),
        functions=("main", "train_epoch"),
        causes=("workers of the loader are started anew in every epoch",),
        place="pointnet_parts.py:123",
        gain=0.58,
        mended=(
            (
                '        multiprocessing_context="spawn",\n',
                ('        multiprocessing_context="spawn",\n        persistent_workers=True,\n'),
            ),
        ),
    ),
    Entry(name="ddpm_shapes", mistake="none"),
    Entry(name="protonet_glyphs", mistake="none"),
    Entry(name="centernet_cells", mistake="none"),
    Entry(name="seq2seq_dates", mistake="none"),
)
