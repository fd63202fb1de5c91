"""Messages of readers about their input: what is wrong in it, what is lost by that, and what to do."""

from __future__ import annotations

from hermes.base.message import Count, Message, Name, Names, Ns, Rank, message, sentence

LOST_EVENTS = sentence("read.lost.events")
LOST_FILE = sentence("read.lost.file")
LOST_ALL_OF_IT = sentence("read.lost.all_of_it")
LOST_DEVICE = sentence("read.lost.device")
LOST_DEVICE_ALL = sentence("read.lost.device_all")
LOST_HOST_CAUSES = sentence("read.lost.host_causes")
LOST_DATABASE = sentence("read.lost.database")
LOST_ITS_TABLE = sentence("read.lost.its_table")
LOST_OPERATIONS = sentence("read.lost.operations")
LOST_KERNELS = sentence("read.lost.kernels")
LOST_STEPS = sentence("read.lost.steps")
LOST_RECORDS = sentence("read.lost.records")
LOST_SUMS = sentence("read.lost.sums")
LOST_PROFILERS_SUMS = sentence("read.lost.profilers_sums")
LOST_PROFILERS_SPLIT = sentence("read.lost.profilers_split")
LOST_SETTINGS = sentence("read.lost.settings")
LOST_SETTINGS_RANK = sentence("read.lost.settings_rank")
LOST_LAYOUT = sentence("read.lost.layout")
LOST_KERNEL_COLUMNS = sentence("read.lost.kernel_columns")
LOST_KERNEL_DETAILS = sentence("read.lost.kernel_details")
LOST_KERNEL_FILE = sentence("read.lost.kernel_file")
LOST_TIMELINE = sentence("read.lost.timeline")
LOST_TRACE_FILE = sentence("read.lost.trace_file")
LOST_TRACE_TASKS = sentence("read.lost.trace_tasks")
LOST_COMPUTED = sentence("read.lost.computed")
LOST_SUMMARY = sentence("read.lost.summary")
LOST_BEHIND_CUT = sentence("read.lost.behind_cut")
LOST_BEHIND_PLACE = sentence("read.lost.behind_place")
LOST_LINE_END = sentence("read.lost.line_end")
LOST_UNWRITTEN = sentence("read.lost.unwritten")
LOST_ILLEGAL = sentence("read.lost.illegal")
LOST_EXPORT = sentence("read.lost.export")
LOST_CLOCK = sentence("read.lost.clock")
LOST_MEMORY = sentence("read.lost.memory")
LOST_SHAPES = sentence("read.lost.shapes")
LOST_GRAPH_KERNELS = sentence("read.lost.graph_kernels")
LOST_REAL_DURATIONS = sentence("read.lost.real_durations")
LOST_LAUNCHED_TASKS = sentence("read.lost.launched_tasks")
LOST_OWNERSHIP = sentence("read.lost.ownership")
LOST_UNTIL_FIRST_TOKEN = sentence("read.lost.until_first_token")
LOST_IN_QUEUE = sentence("read.lost.in_queue")
DO_COPY_AGAIN = sentence("read.do.copy_again")
DO_COPY_FILE = sentence("read.do.copy_file")
DO_COPY_FOLDER = sentence("read.do.copy_folder")
DO_KILLED_PROFILER = sentence("read.do.killed_profiler")
DO_KILLED_RECORDING = sentence("read.do.killed_recording")
DO_KILLED_WRITING = sentence("read.do.killed_writing")
DO_LEVEL0 = sentence("read.do.level0")
DO_LEVEL0_ONLY = sentence("read.do.level0_only")
DO_TASK_TIME = sentence("read.do.task_time")
DO_EXPORT_MSPROF = sentence("read.do.export_msprof")
DO_AGAIN = sentence("read.do.again")
DO_RENAMED_COLUMN = sentence("read.do.renamed_column")
DO_WAIT_FOR_PROFILER = sentence("read.do.wait_for_profiler")
DO_KEEP_FOLDER = sentence("read.do.keep_folder")
DO_ONE_RANK_A_FOLDER = sentence("read.do.one_rank_a_folder")
DO_GIVE_CAPTURES = sentence("read.do.give_captures")
DO_REPORT_CATEGORY = sentence("read.do.report_category")
DO_CUDA_ACTIVITY = sentence("read.do.cuda_activity")
DO_CAPTURE_LESS = sentence("read.do.capture_less")
DO_CPU_ACTIVITY = sentence("read.do.cpu_activity")
DO_TRACE_A_PROCESS = sentence("read.do.trace_a_process")
DO_NVTX = sentence("read.do.nvtx")
DO_ROCTX = sentence("read.do.roctx")
DO_ROCPROF = sentence("read.do.rocprof")
DO_GRAPH_NODES = sentence("read.do.graph_nodes")
DO_MEMORY_HISTORY = sentence("read.do.memory_history")
COLLECTIVES_BY_MARKS = sentence("read.collectives_by_marks")
NO_TASK_IN_TRACE = sentence("read.no_task_in_trace")
NO_TASK = sentence("read.no_task")
NO_HOST_CALL = sentence("read.no_host_call")
SUMMARY_ONLY = sentence("read.summary_only")
SUMS_ONLY = sentence("read.sums_only")
AS_LARGE_AS_JOB = sentence("read.as_large_as_job")
ONLY_GROUP = sentence("read.only_group")
OWN_CLOCK = sentence("read.own_clock")
RAW_DATABASES = sentence("read.raw_databases")
RAW_DEVICE = sentence("read.raw_device")
NO_EVENT = sentence("read.no_event")
CUT_GZIP = sentence("read.cut_gzip")
UTF16 = sentence("read.utf16")
ONLY_HEADER = sentence("read.only_header")
NO_HEADER = sentence("read.no_header")
CUT_LINE = sentence("read.cut_line")
NO_DEVICE_WORK = sentence("read.no_device_work")
NO_HOST_OPERATION = sentence("read.no_host_operation")
NO_OPERATOR = sentence("read.no_operator")
WHOLE_GRAPHS = sentence("read.whole_graphs")
LOST_FOREIGN = sentence("read.lost.foreign")
NO_CLOCK = sentence("read.no_clock")
NO_HISTORY = sentence("read.no_history")


@message("read.lost.table")
def lost_table(*, table: Name) -> None:
    """Message part: a whole table is lost."""


@message("read.lost.table_after")
def lost_table_after(*, n: Count, table: Name) -> None:
    """Message part: the end of a table is lost."""


@message("read.lost.rows")
def lost_rows(*, n: Count, table: Name) -> None:
    """Message part: some rows of a table are lost."""


@message("read.lost.cells")
def lost_cells(*, n: Count, column: Name, table: Name) -> None:
    """Message part: a column of some rows is lost."""


@message("read.lost.these_rows")
def lost_these_rows(*, table: Name) -> None:
    """Message part: these rows of a table are lost."""


@message("read.lost.counted_records")
def lost_counted_records(*, n: Count) -> None:
    """Message part: a number of records is lost."""


@message("read.lost.host_calls")
def lost_host_calls(*, n: Count) -> None:
    """Message part: a number of host calls is lost."""


@message("read.lost.counted_events")
def lost_counted_events(*, n: Count) -> None:
    """Message part: a number of events is lost."""


@message("read.lost.request_times")
def lost_request_times(*, n: Count, part: Message) -> None:
    """Message part: times of requests are lost."""


@message("read.do.export_by_framework")
def do_export_by_framework(*, needs: Name, command: Name) -> None:
    """Hint: how to export a raw capture with the framework's profiler."""


@message("read.do.export_with_cann")
def do_export_with_cann(*, needs: Name, command: Name) -> None:
    """Hint: how to export a raw capture with CANN."""


@message("read.do.export")
def do_export(*, command: Name) -> None:
    """Hint: how to export a raw capture with a command."""


@message("read.table_missing")
def table_missing(*, table: Name) -> None:
    """Message: a table holds nothing."""


@message("read.merged")
def merged(*, chosen: Name) -> None:
    """Message: two exports of one run were merged."""


@message("read.several_traces")
def several_traces(*, n: Count, name: Name) -> None:
    """Message: a capture has several traces."""


@message("read.do.record_host")
def do_record_host(*, how: Name) -> None:
    """Hint: how to record the calls of the host."""


@message("read.do.give_timeline")
def do_give_timeline(*, files: Name, again: Name | None = None) -> None:
    """Hint: which files of a capture hold its timeline."""


@message("read.file_missing")
def file_missing(*, name: Name) -> None:
    """Message: a file of a capture is missing."""


@message("read.no_time")
def no_time(*, n: Count) -> None:
    """Message: rows lack their time."""


@message("read.no_json")
def no_json(*, why: Name) -> None:
    """Message: a file is no JSON."""


@message("read.group_members")
def group_members(*, group: Name, n: Count, last: Count, rank: Count) -> None:
    """Message: the members of a group are not recorded, and its ranks are inferred from positions."""


@message("read.operations_unknown")
def operations_unknown(*, n: Count) -> None:
    """Message: collectives have an unknown form."""


@message("read.operations_from_kernels")
def operations_from_kernels(*, n: Count) -> None:
    """Message: collectives are taken from the file of kernels."""


@message("read.bad_cells")
def bad_cells(*, n: Count) -> None:
    """Message: cells of a table are damaged."""


@message("read.unknown_columns")
def unknown_columns(*, columns: Name) -> None:
    """Message: a table has unknown columns."""


@message("read.group_sized")
def group_sized(*, group: Name, rank: Count, last: Count, whole: Message) -> None:
    """Message: the ranks of a group are inferred from its number of members."""


@message("read.rows_lack")
def rows_lack(*, n: Count, table: Name) -> None:
    """Message: rows lack required values."""


@message("read.impossible_times")
def impossible_times(*, n: Count, table: Name) -> None:
    """Message: rows have impossible times."""


@message("read.no_strings")
def no_strings(*, table: Name) -> None:
    """Message: a database lacks its table of names."""


@message("read.rows_unreadable")
def rows_unreadable(*, n: Count, table: Name, columns: Names) -> None:
    """Message: rows lack a required column."""


@message("read.names_unknown")
def names_unknown(*, n: Count, table: Name, column: Name) -> None:
    """Message: names are missing from the table of names."""


@message("read.ranks_disagree")
def ranks_disagree(*, files: Names, rank: Rank) -> None:
    """Message: files of a capture name different ranks."""


@message("read.cut_database")
def cut_database(*, size: Count, whole: Count) -> None:
    """Message: a database is cut off."""


@message("read.damaged_table")
def damaged_table(*, table: Name, why: Name) -> None:
    """Message: a table of a database is damaged."""


@message("read.being_written")
def being_written(*, process: Name) -> None:
    """Message: a database is still being written."""


@message("read.no_column")
def no_column(*, columns: Names) -> None:
    """Message: a table lacks columns."""


@message("read.kernels_unreadable")
def kernels_unreadable(*, n: Count) -> None:
    """Message: rows of kernels are damaged."""


@message("read.events_without_time")
def events_without_time(*, n: Count) -> None:
    """Message: events lack their time."""


@message("read.exported")
def exported(*, tool: Name, folder: Name) -> None:
    """Message: a raw capture was exported by a tool."""


@message("read.not_exported")
def not_exported(*, tool: Name, why: Name) -> None:
    """Message: the export of a raw capture failed."""


@message("read.records_damaged")
def records_damaged(*, n: Count) -> None:
    """Message: records are damaged."""


@message("read.records_times")
def records_times(*, n: Count) -> None:
    """Message: records have impossible times."""


@message("read.unreadable")
def unreadable(*, why: Name) -> None:
    """Message: a file cannot be read."""


@message("read.no_legal_json")
def no_legal_json(*, why: Name, n: Count) -> None:
    """Message: a trace is no legal JSON, and only part of it was read."""


@message("read.impossible_starts")
def impossible_starts(*, n: Count) -> None:
    """Message: events have impossible start times."""


@message("read.impossible_durations")
def impossible_durations(*, n: Count) -> None:
    """Message: events have impossible durations."""


@message("read.no_legal_csv")
def no_legal_csv(*, why: Name) -> None:
    """Message: a CSV table is damaged."""


@message("read.foreign")
def foreign(*, n: Count, form: Message) -> None:
    """Message: files have a format that Hermes does not read."""


@message("read.categories_unknown")
def categories_unknown(*, n: Count, names: Names) -> None:
    """Message: events have an unknown category."""


@message("read.several_processes")
def several_processes(*, n: Count, pids: Names) -> None:
    """Message: a trace holds several processes."""


@message("read.launched_outside")
def launched_outside(*, n: Count, tasks: Count) -> None:
    """Message: launches of tasks lie before the capture."""


@message("read.launches_without_tasks")
def launches_without_tasks(*, n: Count, launches: Count) -> None:
    """Message: tasks of launches were not recorded."""


@message("read.durations_cut")
def durations_cut(*, n: Count, ns: Ns) -> None:
    """Message: tasks had impossible durations, which were cut."""


@message("read.is_foreign")
def is_foreign(*, file: Name, form: Message) -> None:
    """Error: the input has a format that Hermes does not read."""


@message("read.longer_than_whole")
def longer_than_whole(*, n: Count, part: Message) -> None:
    """Message: times of requests are impossible, because a part is longer than the whole."""
