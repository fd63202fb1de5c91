"""The programs, what is wrong in each, and which answers are right: a cause, or the line of a function."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A program; `functions` and `causes` are right answers, both empty for one without a mistake.

    `place` is the line of the mistake, `mended` what to write instead (each text stands once in the program), and
    `gain` the share of a step that it saves, measured without Hermes.
    """

    name: str
    mistake: str
    functions: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    ranks: int = 1
    place: str = ""
    gain: float = 0.0
    mended: tuple[tuple[str, str], ...] = ()

    @property
    def healthy(self) -> bool:
        """Whether nothing was planted."""
        return not self.functions and not self.causes


_LOADING = (
    "data_loading", "data_processing",
    "data_reading",
)  # fmt: skip
ENTRIES = (
    Entry(name="lm_char", mistake="the causal mask is filled by two loops in each layer", functions=("causal_mask",)),
    Entry(name="segmentation", mistake="the confusion matrix is counted pixel by pixel", functions=("update",)),
    Entry(name="ppo", mistake="advantages are computed by `.item()`, element by element", functions=("compute_gae",)),
    Entry(
        name="dqn", mistake="batches are made from lists of floats", functions=("sample",),
        causes=("lists_to_tensors",),
    ),
    Entry(name="lightning_like", mistake="a callback writes histograms of all weights", functions=("on_batch_end",)),
    Entry(name="hf_like", mistake="texts are tokenised anew in the loop", functions=("encode",), causes=_LOADING),
    Entry(name="gan", mistake="a picture is written pixel by pixel in each step", functions=("save_grid", "<genexpr>")),
    Entry(name="graph_net", mistake="the adjacency is normalised in each layer", functions=("normalized_adjacency",)),
    Entry(name="recommender", mistake="gradients of large tables are dense", causes=("dense_table_gradients",)),
    Entry(name="diffusion", mistake="the schedule is computed for each sample", functions=("cosine_schedule",)),
    Entry(name="speech", mistake="waves are resampled by a loop of slices", functions=("stretch",)),
    Entry(name="two_ranks", mistake="rank 0 writes predictions row by row", functions=("write_predictions",), ranks=2),
    Entry(
        name="compiled", mistake="each length of a batch is compiled anew",
        causes=("compilation", "compilation_of_new_shapes"),
    ),
    Entry(
        name="images_disk", mistake="pictures are read and turned in the training process",
        functions=("__getitem__", "__call__"), causes=_LOADING,
    ),
    Entry(
        name="autoencoder", mistake="weights are saved in nearly every step", functions=("__call__",),
        causes=("checkpoint_or_logging",),
    ),
    Entry(
        name="seq2seq", mistake="logits grow by concatenation", causes=("concat_growth",),
    ),
    Entry(name="healthy_transformer", mistake=""),
    Entry(name="healthy_cnn", mistake=""),
    Entry(name="healthy_loader", mistake=""),
    Entry(name="healthy_actor", mistake=""),
)  # fmt: skip
"""In the order in which they run."""
