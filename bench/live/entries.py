"""The programs of the bench, each with the leaves and functions that its headline may name, written before the run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hermes.model.leaf import Leaf

PROGRAMS = Path(__file__).with_name("programs")
CONTACT = Path(__file__).with_name("contact")
"""Programs as an engineer wrote them who had not read the rules. The cure of a program is a file beside it."""
_ZOO_SCRIPT = Path(__file__).with_name("zoo_script.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A program: `leaves` and `functions` are right answers; both are empty if nothing was planted.

    `zoo` is the file of a program in the zoo whose function has the entry's name; empty for a script in `programs`.
    `smoke`: a test runs the program, too. `contact`: the program stands in `contact`.
    """

    name: str
    leaves: tuple[Leaf, ...] = ()
    functions: tuple[str, ...] = ()
    zoo: str = ""
    smoke: bool = False
    contact: bool = False

    @property
    def healthy(self) -> bool:
        """Whether nothing was planted."""
        return not self.leaves

    def command(self, *, cured: bool) -> tuple[str, ...]:
        """The arguments of Python that run the program."""
        if self.contact:
            return (str(CONTACT / f"{self.name}{'_cured' * cured}.py"),)
        script = (str(_ZOO_SCRIPT), self.zoo, self.name) if self.zoo else (str(PROGRAMS / f"{self.name}.py"),)
        return (*script, "--cured") if cured else script


_SMALL = (Leaf.DISPATCH, Leaf.OTHER_COMPUTE, Leaf.ELEMENTWISE, Leaf.REDUCTION, Leaf.EMBEDDING)
"""Leaves of many small operators: their overhead, or the class that most of them have."""

ENTRIES: tuple[Entry, ...] = (
    Entry(name="csv_rows", leaves=(Leaf.PYTHON,), functions=("read_batch", "<listcomp>"), smoke=True),
    Entry(name="feature_store", leaves=(Leaf.PYTHON, Leaf.FILE_OR_NETWORK), functions=("fetch",), smoke=True),
    Entry(name="box_overlaps", leaves=_SMALL, functions=("overlaps",)),
    Entry(name="saves_state", leaves=(Leaf.FILE_OR_NETWORK,), functions=("keep_state",), smoke=True),
    Entry(name="noisy_images", leaves=(Leaf.RANDOM,), functions=("with_noise",), smoke=True),
    Entry(name="hard_negatives", leaves=(Leaf.SORT,), functions=("negatives",), smoke=True),
    Entry(name="deep_copies", leaves=(Leaf.PYTHON, Leaf.LAYOUT, Leaf.DISPATCH), functions=("follow",)),
    Entry(name="slow_tokens", leaves=(Leaf.INPUT_HERE,), functions=("counted", "__getitem__")),
    Entry(name="healthy_perceptron"),
    Entry(name="healthy_convolutions"),
    Entry(name="healthy_attention"),
    Entry(name="healthy_recurrent"),
    Entry(name="heavy_transform", zoo="input", leaves=(Leaf.INPUT_HERE,), functions=("_features", "__getitem__")),
    Entry(
        name="small_files",
        zoo="input",
        leaves=(Leaf.INPUT_HERE, Leaf.INPUT_READ, Leaf.FILE_OR_NETWORK),
        functions=("_read", "_many_reads", "__getitem__"),
    ),
    Entry(
        name="metrics_each_step",
        zoo="input",
        leaves=(Leaf.FILE_OR_NETWORK,),
        functions=("metrics_each_step",),
    ),
    Entry(name="gc_called", zoo="host", leaves=(Leaf.GARBAGE_COLLECTION,), functions=("gc_called",)),
    Entry(name="tiny_ops", zoo="host", leaves=_SMALL, functions=("tiny_ops", "<genexpr>")),
    Entry(name="heads_apart", zoo="host", leaves=_SMALL, functions=("heads_apart", "<listcomp>")),
    Entry(name="fp64", zoo="compute", leaves=(Leaf.MATRIX_PRODUCT,), functions=("_steps", "fp64")),
    Entry(
        name="finite_checks",
        zoo="host",
        leaves=(Leaf.PYTHON, *_SMALL),
        functions=("check",),
    ),
    Entry(name="place_by_place", zoo="loops_and_pieces", leaves=_SMALL, functions=("forward",)),
    Entry(
        name="mask_in_python",
        zoo="tables_and_masks",
        leaves=(Leaf.PYTHON,),
        functions=("_window", "<listcomp>", "mask_in_python"),
    ),
    Entry(name="debug_log", zoo="host", leaves=(Leaf.PYTHON, Leaf.FILE_OR_NETWORK), functions=("debug_log",)),
    Entry(
        name="replay_of_tuples",
        zoo="scans_and_replays",
        leaves=(Leaf.PYTHON,),
        functions=("some", "<listcomp>", "replay_of_tuples"),
    ),
)
"""In the order in which they run."""

FIRST_CONTACT: tuple[Entry, ...] = (
    Entry(name="vision_blobs", contact=True, leaves=(Leaf.INPUT_HERE,), functions=("salt_and_pepper", "__getitem__")),
    Entry(name="tabular_churn", contact=True, leaves=(Leaf.MATRIX_PRODUCT,), functions=("forward", "fit", "main")),
    Entry(name="rl_dqn", contact=True, leaves=(Leaf.PYTHON,), functions=("to_batch",)),
    Entry(name="rec_movies", contact=True, leaves=(Leaf.OPTIMIZER, Leaf.ELEMENTWISE), functions=("main",)),
    Entry(name="audio_keywords", contact=True, leaves=(Leaf.FILE_OR_NETWORK,), functions=("save",)),
    Entry(name="gen_diffusion", contact=True, leaves=(Leaf.GARBAGE_COLLECTION,), functions=("main",)),
    Entry(name="text_tagger", contact=True, leaves=_SMALL, functions=("add",)),
    Entry(name="ts_forecast", contact=True, leaves=(Leaf.INTERPRETER_LOCK,), functions=("summarise",)),
    Entry(name="vision_resnet", contact=True),
    Entry(name="text_charlm", contact=True),
    Entry(name="graph_nodes", contact=True),
    Entry(name="text_bag", contact=True),
)
"""The programs of the last first contact: docs/first-contact.md has what Hermes said when it met them."""
