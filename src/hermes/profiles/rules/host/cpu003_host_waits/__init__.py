"""The host waits for the device in the middle of the step.

## What it detects

**Reading back.** The rule counts idle time of the device while the host reads a tensor's value, and later, while the
device waits for launches because the host lost its head start in the read. `.item()`, `float(tensor)` and a Python `if`
on a tensor all end in `aten::_local_scalar_dense`. The time is per step, as a share of the window: it is the part of
the leaves *a synchronising call* and *a blocking copy* that reads take. With stacks or Python frames, the finding names
the lines that read.

**Other calls.** The rule counts the rest of these leaves: idle time of the device in calls that wait for it
(`synchronize`, blocking copies), and after them until the host is ahead of the device again. The time is per step, as a
share of the step. With stacks or Python frames, the finding names the lines.

## Why it costs you

**Reading back.** The host waits in the call until the device has finished all queued work. When the value arrives, the
queue is empty: until the host is ahead of the device again, the device waits for launches.

**Other calls.** When the call returns, the queue is empty. The device is idle until the host launches the next task,
and waits for launches until the host is ahead again.

## When it is not a problem

**Reading back.** Reading a value once in many steps, for a log line, is no problem. A long wait alone is no loss,
because the device works during the wait.

**Other calls.** If a profiler or a timer waits at the end of a step, the wait is gone without the profiler or timer. A
long wait alone is no loss, because the device works during the wait.

## What to do

**Reading back.** Keep losses and metrics on the device and read them every N steps. Replace Python branches that depend
on tensors.

**Other calls.** Drop `synchronize()` and `empty_cache()` from the loop, time with events, copy from pinned memory
without blocking, and create tensors on the device instead of copying them to it.

## How to check

**Reading back.** Profile again: the reading operator is gone from most steps, and idle time falls.

**Other calls.** Profile again: the waiting calls are gone from most steps, and idle time falls.
"""
