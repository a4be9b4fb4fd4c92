#!/bin/sh
# Starts workerd under its own name for `watchdog.ts`: says which process it is, and leaves Ctrl-C to muster.
echo $$ >"$MUSTER_PID_FILE"
trap '' INT HUP
exec "$MUSTER_WORKERD" "$@"
