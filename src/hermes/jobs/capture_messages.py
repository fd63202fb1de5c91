"""Messages about requesting captures, and about settings, policies and addresses."""

from __future__ import annotations

from hermes.base.message import Bytes, Count, Message, Name, Names, Ns, Rank, Ranks, Step, Steps, message, sentence

# Captures ----------------------------------------------------------------------------------------------------------


@message("jobs.not_running")
def not_running(*, name: Name) -> None:
    """Error: no running job has that name."""


@message("jobs.not_one")
def not_one(*, name: Name) -> None:
    """Error: several running jobs have that name."""


@message("jobs.running")
def running_jobs(*, names: Names) -> None:
    """Hint: the names of running jobs."""


NONE_RUNNING = sentence("jobs.none_running")
"""Hint: no job runs."""


@message("jobs.no_level")
def no_level(*, level: Name) -> None:
    """Error: the given level of capture does not exist."""


@message("jobs.no_step_yet")
def no_step_yet(*, ranks: Ranks | None = None) -> None:
    """Error: a capture is requested of ranks that have ended no step yet."""


ASK_LATER = sentence("jobs.ask_later")
"""Advice for ranks without a step: request the capture again later."""

OUT_OF_ANOTHER_USER = sentence("jobs.out_of_another_user")
"""Error: an output folder was given for a capture of another user's job."""


@message("jobs.captures_full")
def captures_full(*, used: Bytes) -> None:
    """Error: the captures of a job have reached their limit on the disk."""


REMOVE_CAPTURES = sentence("jobs.remove_captures")
"""Advice for a job whose captures are full: remove some captures."""


@message("jobs.wait_or_cancel")
def wait_or_cancel(*, job: Name, folder: Name | None = None, report: Name | None = None) -> None:
    """Advice while a capture is under way: where the capture goes, and the report of an automatic capture."""


@message("jobs.cannot_make")
def cannot_make(*, path: Name, why: Name) -> None:
    """Error: the folder for a capture cannot be made."""


@message("jobs.cannot_write")
def cannot_write(*, path: Name, why: Name) -> None:
    """Error: a file of a capture or a setting cannot be written."""


HAS_IT_ENDED = sentence("jobs.has_it_ended")
"""Hint where a job's shared memory cannot be opened: the job may have ended."""


@message("jobs.no_metrics")
def no_metrics(*, metrics: Name) -> None:
    """Error: the given metrics of the AI core do not exist."""


@message("jobs.needs_npu")
def needs_npu(*, options: Names, frameworks: Names) -> None:
    """Error: options of a capture that the job's frameworks do not have."""


@message("jobs.capture_waits")
def capture_waits(*, still: Ns) -> None:
    """Says why a capture will have to wait: no step ends at present."""


NO_REPORT = sentence("jobs.no_report")
"""Error: the live page asks for a report that does not exist."""


@message("jobs.pages_full")
def pages_full(*, n: Count) -> None:
    """Error: the largest number of live pages already follows the jobs."""


CLOSE_A_PAGE = sentence("jobs.close_a_page")
"""Advice for too many live pages: close one page."""


@message("jobs.steps_of_capture")
def steps_of_capture(*, n: Count) -> None:
    """Says how many steps a capture may have."""


@message("jobs.ranks_of_capture")
def ranks_of_capture(*, n: Count) -> None:
    """Says how to write the ranks of a capture."""


@message("jobs.fields_of_request")
def fields_of_request(*, names: Names) -> None:
    """Says which fields a capture request must have."""


NOT_A_NAME = sentence("jobs.not_a_name")
"""Error: a text cannot be the name of a job."""


@message("jobs.no_option")
def no_option(*, option: Name) -> None:
    """Error: the given option of a capture does not exist."""


@message("jobs.options_apart")
def options_apart(*, option: Name, mode: Name) -> None:
    """Error: two options of `hermes profile` exclude each other."""


@message("jobs.only_without_hermes")
def only_without_hermes(*, option: Name) -> None:
    """Error: an option of `hermes profile` is only for jobs that were started without Hermes."""


WHICH_MODE = sentence("jobs.which_mode")
"""Says which mode options of `hermes profile` need."""


@message("jobs.written")
def written(*, path: Name) -> None:
    """Says that a configuration of torch_npu was written."""


@message("jobs.look_below")
def look_below(*, folder: Name) -> None:
    """Says in which folder torch_npu's recording appears."""


@message("jobs.asked")
def asked(*, job: Name, steps: Steps) -> None:
    """Says for which steps a capture was requested."""


@message("jobs.capture_is")
def capture_is(*, folder: Name) -> None:
    """Says in which folder a capture is."""


@message("jobs.next_is")
def next_is(*, command: Name) -> None:
    """Says which command of Hermes to run next."""


@message("jobs.rank_is")
def rank_is(*, rank: Rank, pid: Name, life: Message, state: Message, text: Name | None = None) -> None:
    """A rank's line: its process, its state, and the rank's last capture."""


@message("jobs.at_step")
def at_step(*, step: Step, takes: Ns) -> None:
    """The state of a rank that steps: its step and time per step."""


ENDED = sentence("jobs.ended")
"""The state of a rank whose process has ended."""

NO_STEP_OF_RANK = sentence("jobs.no_step_of_rank")
"""The state of a rank that has ended no step yet."""


# Thresholds, run directories, other users --------------------------------------------------------------------------


@message("jobs.thresholds_unreadable")
def thresholds_unreadable(*, why: Name) -> None:
    """Error: the file of thresholds cannot be read."""


THRESHOLDS_UNKNOWN = sentence("jobs.thresholds_unknown")
"""Error: the file of thresholds holds unknown thresholds."""


NUMBER_SUCH_AS = sentence("jobs.number_such_as")
"""An example value for the settings that say how long run directories are kept."""


@message("jobs.policy_refuses")
def policy_refuses(*, account: Name, action: Name, user: Name) -> None:
    """Error: root's policy does not allow the account's action."""


@message("jobs.no_policy")
def no_policy(*, why: Name) -> None:
    """Error: without a policy of root, nobody may see other users' jobs."""


POLICY_NOT_ROOTS = sentence("jobs.policy_not_roots")
"""Error: users other than root could have written the policy."""

POLICY_DAMAGED = sentence("jobs.policy_damaged")
"""Error: the policy file is damaged."""

SEE_CAPTURE_PAGE = sentence("jobs.see_capture_page")
"""Advice: the page where the policy is described."""

LOST_ACCESS = sentence("jobs.lost_access")
"""The loss where the audit log cannot be written: the access is refused."""


@message("jobs.no_user")
def no_user(*, user: Name) -> None:
    """Error: the given user does not exist."""


# torch_npu's dynamic_profile, webhooks -----------------------------------------------------------------------------


NO_FOLDER = sentence("jobs.no_folder")
"""Error: the folder that torch_npu should watch does not exist."""

GIVE_WATCHED_FOLDER = sentence("jobs.give_watched_folder")
"""Advice: give the folder that the job's torch_npu watches."""


@message("jobs.configuration_in_use")
def configuration_in_use(*, why: Message) -> None:
    """Error: an existing configuration of torch_npu is not replaced; `why` says the reason."""


REPLACE_IT = sentence("jobs.replace_it")
"""Advice for an existing configuration of torch_npu: replace it by an option."""


@message("jobs.configuration_unreadable")
def configuration_unreadable(*, why: Name) -> None:
    """Reason to keep a configuration of torch_npu: the file cannot be read."""


CONFIGURATION_FOREIGN = sentence("jobs.configuration_foreign")
"""Reason to keep a configuration of torch_npu: the file is something else."""

CONFIGURATION_NEXT_STEP = sentence("jobs.configuration_next_step")
"""Reason to keep a configuration of torch_npu: it asks for a profile at the next step."""


@message("jobs.configuration_at_step")
def configuration_at_step(*, step: Step) -> None:
    """Reason to keep a configuration of torch_npu: it asks for a profile at a later step."""


@message("jobs.not_an_address")
def not_an_address(*, address: Name) -> None:
    """Error: a webhook's address is no web address."""


ADDRESS_IN_THE_CLEAR = sentence("jobs.address_in_the_clear")
"""Error: a webhook's address uses http to another host."""

GIVE_HTTPS = sentence("jobs.give_https")
"""Advice: the addresses that a webhook takes."""

GIVE_HTTPS_OR_PLAIN = sentence("jobs.give_https_or_plain")
"""Advice: the addresses that a webhook takes, with the option that allows http."""


@message("jobs.webhook_failed")
def webhook_failed(*, why: Name) -> None:
    """Warning: a webhook did not accept an event."""


@message("jobs.no_capture_at")
def no_capture_at(*, first: Step) -> None:
    """Error: the last requested capture does not begin at that step, or does not exist."""


WARMING_UP = sentence("jobs.warming_up")
"""Says that the captured steps are among the first of the job, and may take longer than later ones."""


NOTHING_ASKED = sentence("jobs.nothing_asked")
"""Error: there is no such capture to end."""


NOT_ASKED = sentence("jobs.not_asked_stack")
"""Reason for a missing stack: the process has no handler, and py-spy is not usable."""


@message("jobs.no_stack")
def no_stack(*, rank: Rank, why: Message) -> None:
    """Says that the stacks of a rank are unknown, and why."""
