package helm

import (
	"fmt"
	"os"
	"time"
)

// exitStuck is frames.EXIT_STUCK of toolkit/native: the last line on standard error says why.
const exitStuck = 78

// rendering ends the process if the templates are not rendered within the time that the request
// gives them. Nothing ends a template from inside: a loop takes no context, and would go on behind
// the answer. Nothing is applied yet then, and no record is made.
func (r *run) rendering() (stop func()) {
	limit := time.Duration(r.RenderMs) * time.Millisecond
	if limit <= 0 {
		return func() {}
	}
	timer := time.AfterFunc(limit, func() {
		fmt.Fprintf(os.Stderr, "the templates of the chart were not rendered within %s: "+
			"one of them may have a loop without end\n", limit)
		os.Exit(exitStuck)
	})
	return func() { timer.Stop() }
}
