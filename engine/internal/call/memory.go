package call

import (
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// exitMemory is frames.EXIT_MEMORY of toolkit/native.
const exitMemory = 77

// guarding is how often the heap is looked at: a few MB are filled in that time.
const guarding = 10 * time.Millisecond

// guard ends the process when its heap is larger than it may be, until stop is called. The kernel's
// limit lets one allocation of any size pass: Go reserves its range first, and what is mapped over a
// range that is there already is not counted as growth. Templates ask for as much as they like, as in
// "repeat" and "indent", and so do patches and variables.
func guard() (stop func()) {
	soft := debug.SetMemoryLimit(-1) // GOMEMLIMIT, which is three quarters of what the process may have
	if soft == math.MaxInt64 {
		return func() {}
	}
	ended := make(chan struct{})
	go watch(uint64(soft)/3*4, ended)
	return func() { close(ended) }
}

func watch(limit uint64, ended <-chan struct{}) {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	ticker := time.NewTicker(guarding)
	defer ticker.Stop()
	for {
		select {
		case <-ended:
			return
		case <-ticker.C:
		}
		if metrics.Read(sample); sample[0].Value.Uint64() > limit {
			fmt.Fprintf(os.Stderr, "out of memory: the heap has %d MiB\n", sample[0].Value.Uint64()>>20)
			os.Exit(exitMemory)
		}
	}
}
