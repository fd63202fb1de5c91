#!/bin/sh
# TaskProlog of Slurm: one exporter for each user with a job on this node, as that user, until the user's last job ends.
#
#   TaskProlog=/etc/slurm/hermes-prolog.sh          (slurm.conf; it runs as the user of the job)
#
# Each user has a port of their own on loopback, 20000 + UID modulo 10000: let a Prometheus on the node ask it, or set
# HERMES_EXPORTER_OPTIONS, such as "--otlp grpc://127.0.0.1:4317". What goes wrong here must never fail a job.
uid=$(id -u 2>/dev/null) || exit 0
port=$((20000 + uid % 10000))
state="${XDG_STATE_HOME:-$HOME/.local/state}/hermes"
if command -v hermes >/dev/null 2>&1 && mkdir -p "$state" 2>/dev/null; then
  # Who holds the lock runs; the others leave it alone. Slurm ends it with the job's last process.
  # shellcheck disable=SC2086
  flock --nonblock "$state/exporter.lock" \
    hermes exporter --listen "127.0.0.1:$port" $HERMES_EXPORTER_OPTIONS >/dev/null 2>&1 </dev/null &
fi
exit 0
