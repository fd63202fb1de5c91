"""What migration says of places and files, beside the rules' own sentences."""

from __future__ import annotations

from hermes.base.message import Bytes, Count, Message, Name, Names, message, sentence

# -- what a place is


@message("migrate.code")
def code(*, text: Name) -> None:
    """Code as it stands in the file."""


@message("migrate.in_cell")
def in_cell(*, cell: Count, what: Message) -> None:
    """Something in a cell of a notebook."""


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
    """An environment variable."""


@message("migrate.image")
def image(*, name: Name) -> None:
    """A container image."""


@message("migrate.cuda_kernel")
def cuda_kernel(*, name: Name) -> None:
    """A kernel in a CUDA source."""


CUDA_SOURCE = sentence("migrate.cuda_source")
"""A CUDA source in which no kernel is defined."""


@message("migrate.triton_kernel")
def triton_kernel(*, name: Name) -> None:
    """A kernel in Triton."""


@message("migrate.extension_operator")
def extension_operator(*, name: Name) -> None:
    """An operator that an extension defines."""


@message("migrate.extension_call")
def extension_call(*, name: Name) -> None:
    """A call of an extension of the project."""


# -- why it matters


@message("migrate.not_in_torch_npu")
def not_in_torch_npu(*, name: Name, version: Name) -> None:
    """A name of torch.cuda that torch.npu does not have."""


ANSWERS_WITHOUT_CUDA = sentence("migrate.answers_without_cuda")
"""A call of torch.cuda that answers no or nothing where there is no CUDA."""


@message("migrate.not_taken")
def not_taken(*, chip: Name, argument: Name) -> None:
    """The support table says that a call does not take an argument."""


@message("migrate.mask_not_bool")
def mask_not_bool(*, chip: Name, dtype: Name) -> None:
    """A mask of attention that is not of type bool."""


GIVE_SIZE = sentence("migrate.give_size")
"""What to do about a scale factor."""
CAST_MASK = sentence("migrate.cast_mask")
"""What to do about such a mask."""
ON_HOST = sentence("migrate.on_host")
"""The support table says that a call runs on the host alone."""
MODULE_OF_NCCL = sentence("migrate.module_of_nccl")
"""torch.cuda.nccl is used."""


@message("migrate.no_keywords")
def no_keywords(*, name: Name, keywords: Names) -> None:
    """A call has keywords that its counterpart does not take."""


WITHOUT_KEYWORDS = sentence("migrate.without_keywords")
"""What to do about such keywords."""
HANDLE_OF_STREAM = sentence("migrate.handle_of_stream")
"""The handle of a CUDA stream is read."""
HAND_TO_CUDA = sentence("migrate.hand_to_cuda")
"""What to do about the handle of a stream."""


@message("migrate.no_property")
def no_property(*, name: Name) -> None:
    """A property of a CUDA device that an NPU does not have."""


@message("migrate.names_kept")
def names_kept(*, names: Names) -> None:
    """An import from torch.cuda that convert leaves."""


IMPORT_NOTHING = sentence("migrate.import_nothing")
"""What to do about an import from torch.cuda that nothing needs any more."""
NPU_BRANCH = sentence("migrate.npu_branch")
"""A place beside a branch for the NPU."""
NOTHING_TO_DO = sentence("migrate.nothing_to_do")
"""Advice where nothing has to be done."""
GUARDS_CUDA = sentence("migrate.guards_cuda")
"""A test that keeps CUDA-only code from running."""
WRITE_BRANCH = sentence("migrate.write_branch")
"""What to do about such a test."""
MORE_THAN_DEVICE = sentence("migrate.more_than_device")
"""A method `cuda` whose arguments are not those of torch's."""
ASKS_FOR_NCCL = sentence("migrate.asks_for_nccl")
"""The program asks whether NCCL is there."""
ASK_FOR_BACKEND = sentence("migrate.ask_for_backend")
"""What to do about this question."""


@message("migrate.not_listed")
def not_listed(*, chip: Name, version: Name, chips: Names) -> None:
    """The support table does not list a call for the chip; `chips` are those it is listed for."""


CHECK_ON_CHIP = sentence("migrate.check_on_chip")
"""What to do about a call that is not listed."""
OTHER_ORDER = sentence("migrate.other_order")
"""A call whose indices come in another order."""
COMPARE_NO_INDICES = sentence("migrate.compare_no_indices")
"""What to do about this order."""


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
    """A setting or a tool has a counterpart on Ascend."""


NOT_READ = sentence("migrate.not_read")
"""A setting that Ascend does not read."""
ONLY_FOR_CUDA = sentence("migrate.only_for_cuda")
"""What to do about a setting that no table knows."""
NO_TOOL = sentence("migrate.no_tool")
"""A tool of NVIDIA's without a counterpart."""


@message("migrate.on_ascend")
def on_ascend(*, name: Name) -> None:
    """A library has a counterpart on Ascend."""


NO_LIBRARY = sentence("migrate.no_library")
"""A library without a counterpart on Ascend."""


@message("migrate.imported_late")
def imported_late(*, why: Message) -> None:
    """A library that only a function imports."""


TORCH_WITHOUT_NPU = sentence("migrate.torch_without_npu")
"""torch is installed and torch_npu is not."""
ADD_TORCH_NPU = sentence("migrate.add_torch_npu")
"""What to do about it."""
GLOO_ON_HOST = sentence("migrate.gloo_on_host")
"""Gloo carries tensors of a GPU, and none of an NPU."""
TAKE_HCCL = sentence("migrate.take_hccl")
"""What to do about a group of gloo."""
NO_KERNEL = sentence("migrate.no_kernel")
"""An operator of another library."""
BRINGS_CUDA = sentence("migrate.brings_cuda")
"""A package that installs CUDA's libraries."""
BROUGHT_BY_TORCH = sentence("migrate.brought_by_torch")
"""A package of CUDA's in a lock file that nothing but torch asks for."""
LOCK_ANEW = sentence("migrate.lock_anew")
"""What to do about it."""
INSTALL_TORCH_NPU = sentence("migrate.install_torch_npu")
"""What to install in its place."""


@message("migrate.by_hand_only")
def by_hand_only(*, todo: Message) -> None:
    """Advice that convert cannot carry out, since torch is imported only sometimes."""


# -- files that were not read


@message("migrate.unknown_libraries")
def unknown_libraries(*, names: Names) -> None:
    """Libraries that are imported, and that no table knows."""


CHECK_LIBRARIES = sentence("migrate.check_libraries")
"""What to do about them."""


@message("migrate.no_table")
def no_table(*, name: Name) -> None:
    """There is no support table for a torch version or a chip."""


@message("migrate.tables")
def tables(*, names: Names) -> None:
    """The support tables that there are."""


NO_TREE = sentence("migrate.no_tree")
"""The tree does not exist."""
GIVE_TREE = sentence("migrate.give_tree")
"""What to do where it does not exist, or holds no program."""
NOTHING_TO_SCAN = sentence("migrate.nothing_to_scan")
"""The tree holds no file that scan reads."""
NOTHING_OF_TORCH = sentence("migrate.nothing_of_torch")
"""No file of the tree uses torch, a library of the tables, or CUDA."""
NOT_EMPTY = sentence("migrate.write.not_empty")
"""The folder for the result holds something."""
NAME_NEW = sentence("migrate.write.name_new")
"""What to do about it."""
INTO_ORIGINAL = sentence("migrate.write.into_original")
"""The result would be written into the original."""
NAME_OUTSIDE = sentence("migrate.write.name_outside")
"""What to do about it."""
READ_ONLY = sentence("migrate.write.read_only")
"""A file that would be changed is read-only."""
LEADS_OUT = sentence("migrate.write.leads_out")
"""A file that would be changed lies outside of the tree, behind a link."""
NOTHING_CHANGED = sentence("migrate.write.nothing_changed")
"""What is lost where writing is refused."""
INTO_NEW = sentence("migrate.write.into_new")
"""What to do about files that are read-only."""
NO_GIT = sentence("migrate.write.no_git")
"""git does not answer."""
OUT_OR_FORCE = sentence("migrate.write.out_or_force")
"""What to do where git cannot take changes back."""
NO_REPOSITORY = sentence("migrate.write.no_repository")
"""The tree is in no git repository."""
COMMIT_FIRST = sentence("migrate.write.commit_first")
"""What to do about uncommitted changes."""


@message("migrate.write.uncommitted")
def uncommitted(*, n: Count) -> None:
    """The tree has changes that are not committed."""


@message("migrate.file.too_large")
def too_large(*, size: Bytes, limit: Bytes) -> None:
    """A file is larger than what is read."""


@message("migrate.file.split")
def split_it(*, variable: Name) -> None:
    """What to do about a large file."""


OWN_STATE = sentence("migrate.file.own_state")
"""A folder such as /proc, which shows the machine's own state."""


@message("migrate.file.unreadable")
def unreadable(*, reason: Name) -> None:
    """The system refuses to open or read a file or folder."""


NO_TEXT = sentence("migrate.file.no_text")
"""A file that holds bytes and no text."""
NO_ENCODING = sentence("migrate.file.no_encoding")
"""A text whose encoding is not known."""
DEAD_LINK = sentence("migrate.file.dead_link")
"""A link that leads nowhere."""
SEEN_FOLDER = sentence("migrate.file.seen_folder")
"""A link to a folder that was read already."""


@message("migrate.file.no_python")
def no_python(*, reason: Name, line: Count | None = None) -> None:
    """A file that this Python cannot parse."""


@message("migrate.file.python_2")
def python_2(*, reason: Name, line: Count | None = None) -> None:
    """A file in Python 2."""


TO_PYTHON_3 = sentence("migrate.file.to_python_3")
"""What to do about Python 2."""


@message("migrate.file.no_notebook")
def no_notebook(*, reason: Name) -> None:
    """A notebook that cannot be read."""


NOT_CHECKED = sentence("migrate.file.not_checked")
"""What is lost with a file that was not read."""
