"""What asking a job for captures says, and what is said of settings, policies and addresses."""

from __future__ import annotations

from hermes.base.message import Bytes, Count, Message, Name, Names, Ns, Rank, Ranks, Step, Steps, message, sentence

# Captures ----------------------------------------------------------------------------------------------------------


@message("jobs.not_running")
def not_running(*, name: Name) -> None:
    """No running job has that name."""


@message("jobs.not_one")
def not_one(*, name: Name) -> None:
    """Several running jobs have that name."""


@message("jobs.running")
def running_jobs(*, names: Names) -> None:
    """The names of running jobs."""


NONE_RUNNING = sentence("jobs.none_running")
"""No job runs."""


@message("jobs.no_level")
def no_level(*, level: Name) -> None:
    """A level of capture that there is none of."""


@message("jobs.no_step_yet")
def no_step_yet(*, ranks: Ranks | None = None) -> None:
    """A capture of ranks that have ended no step yet."""


ASK_LATER = sentence("jobs.ask_later")
"""What to do then."""

OUT_OF_ANOTHER_USER = sentence("jobs.out_of_another_user")
"""A folder was given for a capture of another user's job."""


@message("jobs.captures_full")
def captures_full(*, used: Bytes) -> None:
    """The captures of a job take as much as they may."""


REMOVE_CAPTURES = sentence("jobs.remove_captures")
"""What to do then."""


@message("jobs.wait_or_cancel")
def wait_or_cancel(*, job: Name) -> None:
    """What to do about a capture under way."""


@message("jobs.cannot_make")
def cannot_make(*, path: Name, why: Name) -> None:
    """A folder cannot be made."""


@message("jobs.cannot_write")
def cannot_write(*, path: Name, why: Name) -> None:
    """A file cannot be written."""


HAS_IT_ENDED = sentence("jobs.has_it_ended")
"""What to think of where a job's memory cannot be had."""


@message("jobs.no_metrics")
def no_metrics(*, metrics: Name) -> None:
    """Metrics of the AI core that there are none of."""


@message("jobs.needs_npu")
def needs_npu(*, options: Names, frameworks: Names) -> None:
    """Options of a capture that the job's frameworks do not have."""


@message("jobs.capture_waits")
def capture_waits(*, still: Ns) -> None:
    """Why a capture will be waited for."""


NO_REPORT = sentence("jobs.no_report")
"""The page asks for a report that there is none of."""


@message("jobs.pages_full")
def pages_full(*, n: Count) -> None:
    """As many pages follow the jobs as may."""


CLOSE_A_PAGE = sentence("jobs.close_a_page")
"""What to do then."""


@message("jobs.steps_of_capture")
def steps_of_capture(*, n: Count) -> None:
    """How many steps a capture may have."""


@message("jobs.ranks_of_capture")
def ranks_of_capture(*, n: Count) -> None:
    """How ranks are given."""


@message("jobs.fields_of_request")
def fields_of_request(*, names: Names) -> None:
    """Which fields a request has."""


NOT_A_NAME = sentence("jobs.not_a_name")
"""A text that cannot be the name of a job."""


@message("jobs.no_option")
def no_option(*, option: Name) -> None:
    """An option of a capture that there is none of."""


@message("jobs.options_apart")
def options_apart(*, option: Name, mode: Name) -> None:
    """Options of `hermes profile` that do not go together."""


@message("jobs.only_without_hermes")
def only_without_hermes(*, option: Name) -> None:
    """An option of `hermes profile` for jobs that were started without Hermes."""


WHICH_MODE = sentence("jobs.which_mode")
"""Which options these need."""


@message("jobs.written")
def written(*, path: Name) -> None:
    """A configuration of torch_npu was written."""


@message("jobs.look_below")
def look_below(*, folder: Name) -> None:
    """Where the answer of torch_npu appears."""


@message("jobs.asked")
def asked(*, job: Name, steps: Steps) -> None:
    """Which steps a capture was asked for."""


@message("jobs.capture_is")
def capture_is(*, folder: Name) -> None:
    """Where a capture is."""


@message("jobs.next_is")
def next_is(*, command: Name) -> None:
    """What to run next."""


@message("jobs.rank_is")
def rank_is(*, rank: Rank, pid: Name, life: Message, state: Message, text: Name | None = None) -> None:
    """What a rank is doing, and its last capture."""


@message("jobs.at_step")
def at_step(*, step: Step, takes: Ns) -> None:
    """A rank that steps."""


ENDED = sentence("jobs.ended")
"""A rank whose process ended."""

NO_STEP_OF_RANK = sentence("jobs.no_step_of_rank")
"""A rank that has ended no step yet."""


# Thresholds, run directories, other users --------------------------------------------------------------------------


@message("jobs.thresholds_unreadable")
def thresholds_unreadable(*, why: Name) -> None:
    """The file of thresholds cannot be read."""


THRESHOLDS_UNKNOWN = sentence("jobs.thresholds_unknown")
"""The file of thresholds holds others than there are."""


NUMBER_SUCH_AS = sentence("jobs.number_such_as")
"""What a setting of how long run directories are kept looks like."""


@message("jobs.policy_refuses")
def policy_refuses(*, account: Name, action: Name, user: Name) -> None:
    """Root's policy does not allow what was asked."""


@message("jobs.no_policy")
def no_policy(*, why: Name) -> None:
    """There is no policy, so nobody may look at jobs of others."""


POLICY_NOT_ROOTS = sentence("jobs.policy_not_roots")
"""Others than root could have written the policy."""

POLICY_DAMAGED = sentence("jobs.policy_damaged")
"""The policy is not as it should be."""

SEE_CAPTURE_PAGE = sentence("jobs.see_capture_page")
"""Where the policy is described."""

LOST_ACCESS = sentence("jobs.lost_access")
"""What an audit log that cannot be written costs."""


@message("jobs.no_user")
def no_user(*, user: Name) -> None:
    """A user that there is none of."""


# torch_npu's dynamic_profile, webhooks -----------------------------------------------------------------------------


NO_FOLDER = sentence("jobs.no_folder")
"""The folder that torch_npu should watch is not there."""

GIVE_WATCHED_FOLDER = sentence("jobs.give_watched_folder")
"""Which folder to give."""


@message("jobs.configuration_in_use")
def configuration_in_use(*, why: Message) -> None:
    """A configuration of torch_npu is left alone."""


REPLACE_IT = sentence("jobs.replace_it")
"""What to do then."""


@message("jobs.configuration_unreadable")
def configuration_unreadable(*, why: Name) -> None:
    """Why: it cannot be read."""


CONFIGURATION_FOREIGN = sentence("jobs.configuration_foreign")
"""Why: it is something else."""

CONFIGURATION_NEXT_STEP = sentence("jobs.configuration_next_step")
"""Why: it asks for a profile at the next step."""


@message("jobs.configuration_at_step")
def configuration_at_step(*, step: Step) -> None:
    """Why: it asks for a profile at a step."""


@message("jobs.not_an_address")
def not_an_address(*, address: Name) -> None:
    """A webhook's address that is none."""


ADDRESS_IN_THE_CLEAR = sentence("jobs.address_in_the_clear")
"""A webhook's address over http to another host."""

GIVE_HTTPS = sentence("jobs.give_https")
"""Which addresses a webhook takes."""

GIVE_HTTPS_OR_PLAIN = sentence("jobs.give_https_or_plain")
"""The same where http was asked for."""


@message("jobs.webhook_failed")
def webhook_failed(*, why: Name) -> None:
    """A webhook did not take an event."""
