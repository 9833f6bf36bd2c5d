package call

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"
)

// holding tells this program that it is the worker, and for how long it keeps what it asked for.
const holding = "PENSTOCK_TEST_HOLDING"

var held []byte

// TestHeapAboveTheLimitEndsTheProcess asks for one large allocation, which the kernel's limit lets
// pass, in a process of its own.
func TestHeapAboveTheLimitEndsTheProcess(t *testing.T) {
	if patience, err := time.ParseDuration(os.Getenv(holding)); err == nil {
		fill := func(context.Context, []byte) ([]byte, error) {
			held = make([]byte, 256<<20)
			time.Sleep(patience)
			return held[:1], nil
		}
		Operations{"fill": fill}.Call(context.Background(), "fill", nil)
		return
	}
	for _, row := range []struct {
		limit, holding string
		code           int
		said           string
	}{
		{"96MiB", "1m", exitMemory, "out of memory: the heap has"},
		{"960MiB", (10 * guarding).String(), 0, "PASS"},
		{"", (10 * guarding).String(), 0, "PASS"},
	} {
		worker := exec.Command(os.Args[0], "-test.run=^TestHeapAboveTheLimitEndsTheProcess$")
		worker.Env = append(os.Environ(), holding+"="+row.holding, "GOMEMLIMIT="+row.limit)
		output, err := worker.CombinedOutput()
		code := 0
		if ended := new(exec.ExitError); errors.As(err, &ended) {
			code = ended.ExitCode()
		}
		if code != row.code || !bytes.Contains(output, []byte(row.said)) {
			t.Errorf("GOMEMLIMIT=%s: exit code %d, want %d: %s", row.limit, code, row.code, output)
		}
	}
}
