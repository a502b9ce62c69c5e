// SPDX-License-Identifier: GPL-2.0

// Prints what the package procfs, which node_exporter and others use, reads from /proc/pressure.
package main

import (
	"fmt"
	"os"

	"github.com/prometheus/procfs"
)

func main() {
	fs, err := procfs.NewFS("/proc")
	if err != nil {
		panic(err)
	}
	for _, resource := range os.Args[1:] {
		stats, err := fs.PSIStatsForResource(resource)
		if err != nil {
			panic(err)
		}
		if stats.Some != nil {
			fmt.Println(resource, "some", stats.Some.Avg10, stats.Some.Avg60, stats.Some.Avg300, stats.Some.Total)
		}
		if stats.Full != nil {
			fmt.Println(resource, "full", stats.Full.Avg10, stats.Full.Avg60, stats.Full.Avg300, stats.Full.Total)
		}
	}
}
