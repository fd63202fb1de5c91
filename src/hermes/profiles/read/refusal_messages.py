"""Messages of readers about an input that gives nothing: why, what is lost by that, and what to do."""

from __future__ import annotations

from hermes.base.message import Count, Message, Messages, Name, message, sentence

LOST_EVERYTHING = sentence("read.lost.everything")
LOST_CAPTURE = sentence("read.lost.capture")
LOST_THIS_RANK = sentence("read.lost.this_rank")
LOST_DUMP = sentence("read.lost.dump")
LOST_REPORT = sentence("read.lost.report")
LOST_JOINT_REPORT = sentence("read.lost.joint_report")
LOST_ALONE = sentence("read.lost.alone")
LOST_THIS_DATABASE = sentence("read.lost.this_database")
LOST_SERVICE = sentence("read.lost.service")
LOST_SNAPSHOT = sentence("read.lost.snapshot")
DO_OTHER_PROGRAM = sentence("read.do.other_program")
DO_EXPORT_AGAIN = sentence("read.do.export_again")
DO_KILLED_BEFORE_PARSING = sentence("read.do.killed_before_parsing")
DO_KILLED_BEFORE_WRITING = sentence("read.do.killed_before_writing")
DO_STOP_PROFILER = sentence("read.do.stop_profiler")
DO_FREE_DISK = sentence("read.do.free_disk")
DO_FREE_SPACE = sentence("read.do.free_space")
DO_SEND_LINES = sentence("read.do.send_lines")
DO_WRITE_UTF8 = sentence("read.do.write_utf8")
DO_OTHER_KIND = sentence("read.do.other_kind")
DO_IS_TRACE = sentence("read.do.is_trace")
DO_TRACE_HOLDS = sentence("read.do.trace_holds")
DO_FOLDER_OF_JOB = sentence("read.do.folder_of_job")
DO_RECORD_PYTORCH = sentence("read.do.record_pytorch")
DO_NSYS = sentence("read.do.nsys")
DO_SNAPSHOT = sentence("read.do.snapshot")
NO_PROFILERS_TABLE = sentence("read.no_profilers_table")
NO_NAMES = sentence("read.no_names")
NO_SQLITE = sentence("read.no_sqlite")
NO_DUMP_EVENT = sentence("read.no_dump_event")
RAW_ONLY = sentence("read.raw_only")
NO_EXPORT = sentence("read.no_export")
EMPTY_FILE = sentence("read.empty_file")
EMPTY_FOLDER = sentence("read.empty_folder")
UNPACKING_FILLS_DISK = sentence("read.unpacking_fills_disk")
IN_UTF16 = sentence("read.in_utf16")
NO_JSON_START = sentence("read.no_json_start")
EVENTS_NO_LIST = sentence("read.events_no_list")
NO_TRACE_EVENTS = sentence("read.no_trace_events")
NO_WORK_IN_REPORT = sentence("read.no_work_in_report")
NO_WORK_IN_DATABASE = sentence("read.no_work_in_database")
NO_OPERATOR_RUN = sentence("read.no_operator_run")
RUN_TOO_LARGE = sentence("read.run_too_large")
NO_REQUEST = sentence("read.no_request")
NO_SEGMENTS = sentence("read.no_segments")
PICKLE_NO_MARK = sentence("read.pickle.no_mark")
PICKLE_KEY_ALONE = sentence("read.pickle.key_alone")
PICKLE_SHORT_TUPLE = sentence("read.pickle.short_tuple")
PICKLE_NO_LIST = sentence("read.pickle.no_list")
PICKLE_NO_DICTIONARY = sentence("read.pickle.no_dictionary")
PICKLE_ODD_KEY = sentence("read.pickle.odd_key")
PICKLE_TOO_LARGE = sentence("read.pickle.too_large")
PICKLE_ENDS_EARLY = sentence("read.pickle.ends_early")


@message("read.not_read")
def not_read(*, why: Message) -> None:
    """Error: a file cannot be read."""


@message("read.no_table")
def no_table(*, table: Name) -> None:
    """Reason: a database lacks a table."""


@message("read.damaged_database")
def damaged_database(*, why: Name) -> None:
    """Error: a database is damaged."""


@message("read.closed_database")
def closed_database(*, why: Name) -> None:
    """Error: a database cannot be opened."""


@message("read.not_copied")
def not_copied(*, why: Message) -> None:
    """Error: a database that is still being written cannot be copied."""


@message("read.no_room")
def no_room(*, folder: Name, need: Name) -> None:
    """Reason: the disk is full."""


@message("read.cut_off")
def cut_off(*, size: Name, whole: Name) -> None:
    """Error: a database is cut off."""


@message("read.no_gzip")
def no_gzip(*, why: Message) -> None:
    """Error: a packed file cannot be unpacked."""


@message("read.no_readable_event")
def no_readable_event(*, why: Name) -> None:
    """Error: no event of a damaged trace can be read."""


@message("read.beyond_repair")
def beyond_repair(*, why: Name) -> None:
    """Error: a damaged trace cannot be repaired."""


@message("read.several_kinds")
def several_kinds(*, found: Messages) -> None:
    """Error: profiles of different programs were given together."""


@message("read.of_reader")
def of_reader(*, count: Count, reader: Name) -> None:
    """Message part: how many profiles one program wrote."""


@message("read.no_profile")
def no_profile(*, count: Name, names: Name) -> None:
    """Error: the given files are no profiles."""


@message("read.do.give_files")
def do_give_files(*, kinds: Messages) -> None:
    """Hint: the files that Hermes reads, by the program that writes them."""


@message("read.files_of")
def files_of(*, program: Name, files: Name) -> None:
    """Message part: a program, and its files that Hermes reads."""


@message("read.no_capture")
def no_capture(*, capture: Name) -> None:
    """Error: the requested capture does not exist."""


@message("read.do.captures")
def do_captures(*, known: Name) -> None:
    """Hint: which captures exist."""


@message("read.not_pytorch")
def not_pytorch(*, names: Name) -> None:
    """Error: a trace was written by another program than PyTorch."""


@message("read.do.give_run")
def do_give_run(*, file: Name) -> None:
    """Hint: where to find the times of operators that ran alone."""


@message("read.no_snapshot")
def no_snapshot(*, why: Message) -> None:
    """Error: a pickle is no memory snapshot."""


@message("read.pickle.not_plain")
def pickle_not_plain(*, instruction: Name) -> None:
    """Reason: a pickle holds instructions that could call anything."""


@message("read.pickle.damaged")
def pickle_damaged(*, error: Name) -> None:
    """Reason: a pickle is damaged."""
