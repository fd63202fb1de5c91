"""The programs of the second blind round, each with its truth, written before the first capture.

Where a mistake is no line of a function that would stand for it alone, `causes` says it in plain words, not in those of
a report: such an answer is judged by hand. Gains are of processor time on one core, of `news_classifier` of time.
"""

from __future__ import annotations

from bench.contact.entries import Entry

_SCRATCH = """        h = [x.new_zeros(b, self.hidden) for _ in self.cells]
        c = [x.new_zeros(b, self.hidden) for _ in self.cells]
        outputs = []
        for t in range(length):
            inp = x[:, t]
            for i, cell in enumerate(self.cells):
                h[i], c[i] = cell(inp, (h[i], c[i]))
                inp = self.dropout(h[i])
            outputs.append(inp)
        return torch.stack(outputs, 1)
"""
_SAMPLE = """    for _ in range(new_tokens):
        logits = policy(input_ids=tokens, use_cache=False).logits[:, -1] / temperature
"""
_SAMPLE_MENDED = """    fresh, cache = prompts, None
    for _ in range(new_tokens):
        out = policy(input_ids=fresh, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        logits = out.logits[:, -1] / temperature
"""
_POWER = """    with torch.no_grad():
        w = weight.flatten(1)
        u = _U.setdefault(id(weight), torch.randn(len(w)))
        v = F.normalize(w.T @ u, dim=0)
        u = _U[id(weight)] = F.normalize(w @ v, dim=0)
    return u @ weight.flatten(1) @ v
"""
ENTRIES = (
    Entry(
        name="multitask_faces", mistake="the trunk is walked backward once for each of three losses",
        functions=("train_step",), place="multitask_faces.py:76", gain=0.54,
        mended=(
            ("    for name, term in terms.items():\n        (WEIGHTS[name] * term).backward(retain_graph=True)\n",
             "    sum(WEIGHTS[name] * term for name, term in terms.items()).backward()\n"),
        ),
    ),
    Entry(
        name="load_forecast", mistake="everything is computed in double precision, as the data came so",
        causes=("double precision",), place="load_forecast.py:6", gain=0.60,
        mended=(
            ("torch.set_default_dtype(torch.float64)  # the meters come as numpy doubles\n", ""),
            ("torch.from_numpy(windows[m, s])", "torch.from_numpy(windows[m, s]).float()"),
        ),
    ),
    Entry(
        name="unet_cells", mistake="the whole validation set is scored after every fifth step",
        functions=("validate",), place="unet_cells.py:91", gain=0.35,
        mended=(("val_every: int = 5", "val_every: int = 500"),),
    ),
    Entry(
        name="a2c_cartpole", mistake="the policy is asked for each environment by itself, with a batch of one",
        functions=("collect", "<listcomp>", "act"), place="a2c_cartpole.py:62", gain=0.75,
        mended=(("np.array([self.agent.act(o) for o in self.obs])", "self.agent.act(self.obs)"),),
    ),
    Entry(
        name="ddp_intent", mistake="gradients are reduced across ranks after each of four micro batches",
        causes=("gradients reduced in each micro batch",), ranks=2, place="ddp_intent.py:62", gain=0.36,
        mended=(
            ("            loss = loss_fn(model(tokens), labels) / ACCUMULATE\n            loss.backward()\n",
             "            model.require_backward_grad_sync = micro == ACCUMULATE - 1\n"
             "            loss = loss_fn(model(tokens), labels) / ACCUMULATE\n            loss.backward()\n"),
        ),
    ),
    Entry(
        name="vae_digits", mistake="the workers of the loader are started anew for each epoch of five batches",
        causes=("loader workers started anew",), place="vae_digits.py:61", gain=0.34,
        mended=(("drop_last=True)", "drop_last=True, persistent_workers=True)"),),
    ),
    Entry(
        name="trainer_gpt2", mistake="activations are computed again in backward, though memory is plentiful",
        causes=("activation checkpointing",), place="trainer_gpt2.py:43", gain=0.27,
        mended=(("gradient_checkpointing=True", "gradient_checkpointing=False"),),
    ),
    Entry(
        name="molecule_diffusion", mistake="the detection of anomalies in autograd was left on",
        causes=("anomaly detection of autograd",), place="molecule_diffusion.py:8", gain=0.59,
        mended=(("torch.autograd.set_detect_anomaly(True)\n", ""),),
    ),
    Entry(
        name="product_retrieval", mistake="distances are taken of all differences, written out, in place of a product",
        functions=("pairwise_sqdist",), place="product_retrieval.py:35", gain=0.92,
        mended=(
            ("    diff = a.unsqueeze(1) - b.unsqueeze(0)\n    return diff.pow(2).sum(dim=-1)\n",
             "    return a.pow(2).sum(1, keepdim=True) - 2 * a @ b.T + b.pow(2).sum(1)\n"),
        ),
    ),
    Entry(
        name="credit_tabular", mistake="categories are made one-hot and multiplied, in place of a look-up",
        functions=("forward",), place="credit_tabular.py:22", gain=0.55,
        mended=(
            ("nn.Linear(card, dim, bias=False)", "nn.Embedding(card, dim)"),
            ("self.proj(F.one_hot(col, self.card).float())", "self.proj(col)"),
        ),
    ),
    Entry(
        name="music_lstm", mistake="the recurrence is a loop of cells over time, in place of one LSTM",
        functions=("forward",), place="music_lstm.py:40", gain=0.72,
        mended=(
            ("self.cells = nn.ModuleList(nn.LSTMCell(dim if i == 0 else hidden, hidden) for i in range(layers))",
             "self.rnn = nn.LSTM(dim, hidden, layers, dropout=dropout, batch_first=True)"),
            (_SCRATCH, "        return self.dropout(self.rnn(x)[0])\n"),
        ),
    ),
    Entry(
        name="keyword_spotting", mistake="the whole archive is unpacked for each clip",
        functions=("__getitem__",), place="keyword_spotting.py:34", gain=0.87,
        mended=(("self.archive = np.load(path)", "self.archive = dict(np.load(path))"),),
    ),
    Entry(
        name="captioner_lightning", mistake="a callback collects garbage after each step",
        functions=("on_train_batch_end",), place="captioner_lightning.py:65", gain=0.87,
        mended=(("        gc.collect()\n", ""),),
    ),
    Entry(
        name="news_classifier", mistake="metrics are posted to a far server in each step, and the step waits",
        functions=("log",), place="news_classifier.py:39", gain=0.67,
        mended=(
            ("            tracker.log(step,", "            if step % 100 == 0:\n                tracker.log(step,"),
        ),
    ),
    Entry(
        name="texture_gan", mistake="singular values are decomposed for each convolution in each pass",
        functions=("largest_singular_value",), place="texture_gan.py:10", gain=0.49,
        mended=(
            ("def largest_singular_value", "_U: dict = {}\n\n\ndef largest_singular_value"),
            ("    return torch.linalg.svdvals(weight.flatten(1))[0]\n", _POWER),
        ),
    ),
    Entry(
        name="reward_writer", mistake="each new token runs the whole text through the model, without a cache",
        functions=("sample",), place="reward_writer.py:25", gain=0.58,
        mended=(
            (_SAMPLE, _SAMPLE_MENDED),
            ("tokens = torch.cat([tokens, nxt], dim=1)", "tokens, fresh = torch.cat([tokens, nxt], dim=1), nxt"),
        ),
    ),
    Entry(name="healthy_gcn", mistake=""),
    Entry(name="healthy_mlm", mistake=""),
    Entry(name="healthy_td3bc", mistake=""),
    Entry(name="healthy_denoise", mistake=""),
)  # fmt: skip
"""In the order in which they run."""
