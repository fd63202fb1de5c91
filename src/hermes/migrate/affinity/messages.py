"""Messages about the plan of cores, and about moving threads."""

from __future__ import annotations

from hermes.base.message import Count, Message, Name, message, sentence


@message("affinity.answer.plan")
def planned(*, devices: Message, cores: Message) -> None:
    """The answer of a plan of cores."""


@message("affinity.devices")
def devices(*, n: Count) -> None:
    """The number of devices."""


@message("affinity.cores")
def cores(*, n: Count) -> None:
    """The number of cores."""


@message("affinity.processes")
def processes(*, n: Count) -> None:
    """The number of processes."""


@message("affinity.answer.moved")
def moved(*, processes: Message) -> None:
    """All threads of the processes are on their planned cores."""


@message("affinity.answer.partly")
def partly_moved(*, failed: Message, processes: Message) -> None:
    """Some threads were not moved."""


@message("affinity.near")
def near(*, cores: Message) -> None:
    """Why a rank has its cores: the cores are near to its device."""


@message("affinity.share")
def share(*, cores: Message, devices: Message) -> None:
    """Why a rank has its cores: several devices share the cores near to them."""


@message("affinity.limited")
def limited(*, allowed: Count, online: Count, cores: Name) -> None:
    """A cgroup allows only some of the cores."""


@message("affinity.tools_disagree")
def tools_disagree(*, device: Name, system: Name, tool: Name) -> None:
    """sysfs and the vendor's tool report different cores for a device."""


@message("affinity.not_allowed")
def not_allowed(*, device: Name, cores: Name) -> None:
    """The job may use none of the cores near to a device."""


@message("affinity.not_known")
def not_known(*, device: Name, cores: Message) -> None:
    """The cores near to a device are not known."""


@message("affinity.crowded")
def crowded(*, devices: Message, cores: Message, which: Name) -> None:
    """There are more devices than cores near to the devices."""


@message("affinity.thread_stays")
def thread_stays(*, thread: Name, reason: Name) -> None:
    """The system refuses to move a thread."""


@message("affinity.other_cores")
def other_cores(*, thread: Name) -> None:
    """The kernel gave a thread other cores than requested."""


@message("affinity.not_running")
def not_running(*, pid: Name) -> None:
    """A process does not run."""


@message("affinity.state_unreadable")
def state_unreadable(*, reason: Name) -> None:
    """The file with the cores that threads had before cannot be read."""


@message("affinity.no_pair")
def no_pair(*, text: Name) -> None:
    """The value of `--pid` names no device and process."""


HOW_PAIR = sentence("affinity.how_pair")
NO_DEVICE = sentence("affinity.no_device")
WHERE_TO_RUN = sentence("affinity.where_to_run")
NO_PROCESS = sentence("affinity.no_process")
NAME_PROCESS = sentence("affinity.name_process")
NOT_APPLIED = sentence("affinity.not_applied")
APPLY_FIRST = sentence("affinity.apply_first")
TITLE_RANKS = sentence("affinity.title.ranks")
TITLE_COMMANDS = sentence("affinity.title.commands")
TITLE_VARIABLE = sentence("affinity.title.variable")
TITLE_RUNNING = sentence("affinity.title.running")
TITLE_PROCESSES = sentence("affinity.title.processes")
COLUMN_DEVICE = sentence("affinity.column.device")
COLUMN_CORES = sentence("affinity.column.cores")
COLUMN_NODE = sentence("affinity.column.node")
COLUMN_PROCESSES = sentence("affinity.column.processes")
COLUMN_WHY = sentence("affinity.column.why")
COLUMN_PROCESS = sentence("affinity.column.process")
COLUMN_THREADS = sentence("affinity.column.threads")
