"""Messages about places and files of a migration, beside the sentences of the rules."""

from __future__ import annotations

from hermes.base.message import Bytes, Count, Message, Name, Names, message, sentence

# -- kinds of places


@message("migrate.code")
def code(*, text: Name) -> None:
    """Code as written in the file."""


@message("migrate.in_cell")
def in_cell(*, cell: Count, what: Message) -> None:
    """A place in a cell of a notebook."""


@message("migrate.in_loop")
def in_loop(*, text: Name) -> None:
    """A call in a training loop."""


@message("migrate.with_type")
def with_type(*, api: Name, dtype: Name) -> None:
    """A call with tensors of a data type."""


@message("migrate.library")
def library(*, name: Name) -> None:
    """A library that is imported or installed."""


TORCH_ALONE = sentence("migrate.torch_alone")
"""Requirements name torch and no torch_npu."""


@message("migrate.variable")
def variable(*, name: Name) -> None:
    """An environment variable in the source."""


@message("migrate.image")
def image(*, name: Name) -> None:
    """A container image that the source names."""


@message("migrate.cuda_kernel")
def cuda_kernel(*, name: Name) -> None:
    """A kernel in a CUDA source."""


CUDA_SOURCE = sentence("migrate.cuda_source")
"""A CUDA source in which no kernel is defined."""


@message("migrate.triton_kernel")
def triton_kernel(*, name: Name) -> None:
    """A kernel that is written in Triton."""


@message("migrate.extension_operator")
def extension_operator(*, name: Name) -> None:
    """An operator that an extension defines."""


@message("migrate.extension_call")
def extension_call(*, name: Name) -> None:
    """A call of an extension of the project."""


# -- why a place matters


@message("migrate.not_in_torch_npu")
def not_in_torch_npu(*, name: Name, version: Name) -> None:
    """A name of torch.cuda that torch.npu lacks."""


ANSWERS_WITHOUT_CUDA = sentence("migrate.answers_without_cuda")
"""A call of torch.cuda that returns False or does nothing if there is no CUDA."""


@message("migrate.not_taken")
def not_taken(*, chip: Name, argument: Name) -> None:
    """By the support table, a call does not accept an argument."""


@message("migrate.mask_not_bool")
def mask_not_bool(*, chip: Name, dtype: Name) -> None:
    """An attention mask whose type is not bool."""


GIVE_SIZE = sentence("migrate.give_size")
"""What to do about a scale factor that a call does not accept."""
CAST_MASK = sentence("migrate.cast_mask")
"""What to do about an attention mask whose type is not bool."""
ON_HOST = sentence("migrate.on_host")
"""By the support table, a call runs only on the host."""
MODULE_OF_NCCL = sentence("migrate.module_of_nccl")
"""torch.cuda.nccl is used."""


@message("migrate.no_keywords")
def no_keywords(*, name: Name, keywords: Names) -> None:
    """A call has keywords that its counterpart does not accept."""


WITHOUT_KEYWORDS = sentence("migrate.without_keywords")
"""What to do about keywords that the counterpart does not accept."""
HANDLE_OF_STREAM = sentence("migrate.handle_of_stream")
"""The program reads the handle of a CUDA stream."""
HAND_TO_CUDA = sentence("migrate.hand_to_cuda")
"""What to do about the handle of a stream."""


@message("migrate.no_property")
def no_property(*, name: Name) -> None:
    """A property of a CUDA device that an NPU lacks."""


@message("migrate.names_kept")
def names_kept(*, names: Names) -> None:
    """An import from torch.cuda that convert leaves unchanged."""


IMPORT_NOTHING = sentence("migrate.import_nothing")
"""What to do about an import from torch.cuda that no code needs any more."""
NPU_BRANCH = sentence("migrate.npu_branch")
"""A place next to a branch for the NPU."""
NOTHING_TO_DO = sentence("migrate.nothing_to_do")
"""The advice where nothing has to be done."""
GUARDS_CUDA = sentence("migrate.guards_cuda")
"""A test that keeps CUDA-only code from running."""
WRITE_BRANCH = sentence("migrate.write_branch")
"""What to do about a test that keeps CUDA-only code from running."""
MORE_THAN_DEVICE = sentence("migrate.more_than_device")
"""A method `cuda` with other arguments than torch's method."""
ASKS_FOR_NCCL = sentence("migrate.asks_for_nccl")
"""The program asks whether NCCL is available."""
ASK_FOR_BACKEND = sentence("migrate.ask_for_backend")
"""What to do about a program that asks for NCCL."""


@message("migrate.not_listed")
def not_listed(*, chip: Name, version: Name, chips: Names) -> None:
    """The support table does not list a call for the chip; `chips` are the chips for which it lists the call."""


CHECK_ON_CHIP = sentence("migrate.check_on_chip")
"""What to do about a call that is not listed."""
OTHER_ORDER = sentence("migrate.other_order")
"""A call that returns indices in another order on an NPU."""
COMPARE_NO_INDICES = sentence("migrate.compare_no_indices")
"""What to do about indices that come in another order."""


@message("migrate.types_listed")
def types_listed(*, chip: Name, types: Names) -> None:
    """The data types that the support table lists for a call."""


@message("migrate.no_call_takes")
def no_call_takes(*, chip: Name) -> None:
    """A data type that the support table lists for no call."""


@message("migrate.no_double")
def no_double(*, chip: Name) -> None:
    """The support table excludes float64 for a call."""


@message("migrate.counterpart")
def counterpart(*, name: Name) -> None:
    """The counterpart of a setting or a tool on Ascend."""


NOT_READ = sentence("migrate.not_read")
"""A setting that Ascend does not read."""
ONLY_FOR_CUDA = sentence("migrate.only_for_cuda")
"""What to do about a setting that no table knows."""
NO_TOOL = sentence("migrate.no_tool")
"""A tool of NVIDIA's has no counterpart."""


@message("migrate.on_ascend")
def on_ascend(*, name: Name) -> None:
    """The counterpart of a library on Ascend."""


NO_LIBRARY = sentence("migrate.no_library")
"""A library has no counterpart on Ascend."""


@message("migrate.imported_late")
def imported_late(*, why: Message) -> None:
    """A library that only a function imports."""


TORCH_WITHOUT_NPU = sentence("migrate.torch_without_npu")
"""torch is installed and torch_npu is not."""
ADD_TORCH_NPU = sentence("migrate.add_torch_npu")
"""What to do if torch is installed and torch_npu is not."""
GLOO_ON_HOST = sentence("migrate.gloo_on_host")
"""Gloo transfers tensors of a GPU, and no tensors of an NPU."""
TAKE_HCCL = sentence("migrate.take_hccl")
"""What to do about a process group of gloo."""
NO_KERNEL = sentence("migrate.no_kernel")
"""An operator of another library, which has no kernel for an NPU."""
BRINGS_CUDA = sentence("migrate.brings_cuda")
"""A package that installs CUDA's libraries."""
BROUGHT_BY_TORCH = sentence("migrate.brought_by_torch")
"""A CUDA package in a lock file that only torch needs."""
LOCK_ANEW = sentence("migrate.lock_anew")
"""What to do about CUDA packages in a lock file."""
INSTALL_TORCH_NPU = sentence("migrate.install_torch_npu")
"""What to install in place of a CUDA package."""


@message("migrate.by_hand_only")
def by_hand_only(*, todo: Message) -> None:
    """Advice that convert cannot carry out, because torch is imported only under a condition."""


# -- files that were not read


@message("migrate.unknown_libraries")
def unknown_libraries(*, names: Names) -> None:
    """Imported libraries that no table knows."""


CHECK_LIBRARIES = sentence("migrate.check_libraries")
"""What to do about libraries that no table knows."""


@message("migrate.no_table")
def no_table(*, name: Name) -> None:
    """There is no support table for a torch version or a chip."""


@message("migrate.tables")
def tables(*, names: Names) -> None:
    """The support tables that exist."""


NO_TREE = sentence("migrate.no_tree")
"""The source tree does not exist."""
GIVE_TREE = sentence("migrate.give_tree")
"""What to do if the source tree does not exist, or holds no program."""
NOTHING_TO_SCAN = sentence("migrate.nothing_to_scan")
"""The source tree holds no file that scan reads."""
NOTHING_OF_TORCH = sentence("migrate.nothing_of_torch")
"""No file of the source tree uses torch, a library of the tables, or CUDA."""
NOT_EMPTY = sentence("migrate.write.not_empty")
"""The folder for the converted tree is not empty."""
NAME_NEW = sentence("migrate.write.name_new")
"""What to do if the output folder is not empty."""
INTO_ORIGINAL = sentence("migrate.write.into_original")
"""The converted tree would be written into the original tree."""
NAME_OUTSIDE = sentence("migrate.write.name_outside")
"""What to do if the output would be written into the original tree."""
READ_ONLY = sentence("migrate.write.read_only")
"""A file to change is read-only."""
LEADS_OUT = sentence("migrate.write.leads_out")
"""A file to change is a link that leads out of the source tree."""
NOTHING_CHANGED = sentence("migrate.write.nothing_changed")
"""What is lost if writing is refused: no file was changed."""
INTO_NEW = sentence("migrate.write.into_new")
"""What to do about read-only files."""
NO_GIT = sentence("migrate.write.no_git")
"""The command git fails."""
OUT_OR_FORCE = sentence("migrate.write.out_or_force")
"""What to do if git cannot undo changes."""
NO_REPOSITORY = sentence("migrate.write.no_repository")
"""The source tree is in no git repository."""
COMMIT_FIRST = sentence("migrate.write.commit_first")
"""What to do about uncommitted changes."""


@message("migrate.write.uncommitted")
def uncommitted(*, n: Count) -> None:
    """The tree has changes that are not committed."""


@message("migrate.file.too_large")
def too_large(*, size: Bytes, limit: Bytes) -> None:
    """A file is larger than the limit for reading."""


@message("migrate.file.split")
def split_it(*, variable: Name) -> None:
    """What to do about a file larger than the limit."""


OWN_STATE = sentence("migrate.file.own_state")
"""A folder such as /proc, which shows the machine's own state."""


@message("migrate.file.unreadable")
def unreadable(*, reason: Name) -> None:
    """The system refuses to open or read a file or folder."""


NO_TEXT = sentence("migrate.file.no_text")
"""A file that holds bytes and no text."""
NO_ENCODING = sentence("migrate.file.no_encoding")
"""A text file with an unknown encoding."""
DEAD_LINK = sentence("migrate.file.dead_link")
"""A link to a file that does not exist."""
SEEN_FOLDER = sentence("migrate.file.seen_folder")
"""A link to a folder that was already read."""


@message("migrate.file.no_python")
def no_python(*, reason: Name, line: Count | None = None) -> None:
    """A file that this Python cannot parse."""


@message("migrate.file.python_2")
def python_2(*, reason: Name, line: Count | None = None) -> None:
    """A file in Python 2."""


TO_PYTHON_3 = sentence("migrate.file.to_python_3")
"""What to do about a file in Python 2."""


@message("migrate.file.no_notebook")
def no_notebook(*, reason: Name) -> None:
    """A notebook that cannot be read."""


NOT_CHECKED = sentence("migrate.file.not_checked")
"""What is lost if a file was not read."""
