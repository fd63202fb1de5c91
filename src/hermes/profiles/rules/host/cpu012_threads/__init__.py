"""Threads of the program hold up its training loop.

## What it detects

**Started anew.** The training thread starts threads and processes (`threading.Thread.start`, `Process.start`,
`subprocess.Popen`, and the calls of these in pools and executors). The training thread also ends pools after their
results have arrived (`shutdown`, `terminate`, `join`). The rule counts the idle time of the device during starts and
ends, per step. On a job without a device, the rule counts the host's own time. At least half of the steps must start
some. Waiting for results does not count, and neither do the workers of a compiler or of a loader (IO001). The rule
needs Python frames (`with_stack`).

**Beside the loop.** Another Python thread is on a core while a capture of Hermes samples all threads. The cost is at
most the time of that thread on a core. The cost is also at most the time in which the stepping thread was on no core in
the steps before the capture. Waits of the stepping thread, as for a batch from a queue, are left out. With a device,
the cost is at most the device's idle time. Only captures of Hermes show threads beside the loop.

## Why it costs you

**Started anew.** A thread takes a tenth of a millisecond to start, and started threads compete for the interpreter. A
process takes milliseconds, and longer if the forking process has much memory. The thread that feeds the device pays for
all starts.

**Beside the loop.** One thread at a time runs Python. A thread that does not release the interpreter keeps it for 5 ms,
and the stepping thread needs it again after every operator. If both threads share a core, each waits while the other
computes.

## When it is not a problem

**Started anew.** Threads that run for many steps are no problem. If started threads already compute while others start,
a pool waits for the same work later. The lower end of the gain allows for such waits.

**Beside the loop.** A thread with a core of its own, in operators or libraries that release the interpreter, is no
problem: then the stepping thread waits for something else. A thread costs nothing if the device has enough work
meanwhile.

## What to do

**Started anew.** Create one pool before the loop and submit the tasks of each step to it. Combine tasks of microseconds
into fewer and larger ones.

**Beside the loop.** Let the thread block instead of polling: with a queue's `get` or `put`, an event or a condition. Or
move the thread's work to a process, or do less of this work.

## How to check

**Started anew.** Profile again: no frame of `start` is left in the step, and the step is shorter by the gain.

**Beside the loop.** The next capture rarely sees the thread on a core, and the step is shorter.
"""
