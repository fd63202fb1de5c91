"""Data that a running job publishes: control segment, step rings, step logs. Imports the standard library alone.

A job owns a *run directory*. The file `job.json` in the run directory names the *control segment* in shared memory,
through which captures are requested and acknowledged. Each rank has a *step ring* beside that segment, and a *step log*
in the run directory. Ranks and watchers share no other data, and neither trusts what the other wrote: sizes, owners,
versions and checksums are checked first.
"""
