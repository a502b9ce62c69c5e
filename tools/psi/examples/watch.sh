#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Act on memory pressure as a service of systemd (MemoryPressureWatch=).
if [ -p "$MEMORY_PRESSURE_WATCH" ]; then
	while read -r _; do
		echo "memory is short: drop caches"
	done <"$MEMORY_PRESSURE_WATCH"
else
	# A shell cannot poll a pressure file or connect to a socket.
	exec pressure on -- echo "memory is short: drop caches"
fi
