package cel

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// exitStuck is frames.EXIT_STUCK of toolkit/native: the last line on standard error says why.
const exitStuck = 78

// looking is how often the used processor time is looked at.
const looking = 20 * time.Millisecond

// watch ends the process when it has used so much processor time, until stop is called. Neither the
// cost limit nor an interrupt ends a step that does much at once, such as a replacement in a long
// string. Time that other processes use does not count.
func watch(limit time.Duration) (stop func()) {
	if limit <= 0 {
		return func() {}
	}
	ended := make(chan struct{})
	go func(began time.Duration) {
		ticker := time.NewTicker(looking)
		defer ticker.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ticker.C:
			}
			if processorTime()-began > limit {
				fmt.Fprintf(os.Stderr, "the expressions use more than %s of processor time\n", limit)
				os.Exit(exitStuck)
			}
		}
	}(processorTime())
	return func() { close(ended) }
}

func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
