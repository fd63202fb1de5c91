"""What a running job publishes: control segment, step rings, step logs; the standard library only, no other room.

A job owns a *run directory*. `job.json` in it names the *control segment* in shared memory, through which captures are
asked for and acknowledged. Each rank has a *step ring* beside that segment, and a *step log* in the run directory.
Ranks and watchers share nothing else, and neither trusts what the other wrote: sizes, owners, versions and checksums
come first.
"""
