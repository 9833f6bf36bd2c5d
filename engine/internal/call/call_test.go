package call

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

var ops = Operations{
	"echo":  func(_ context.Context, in []byte) ([]byte, error) { return in, nil },
	"fail":  func(context.Context, []byte) ([]byte, error) { return nil, errors.New("no luck") },
	"code":  func(context.Context, []byte) ([]byte, error) { return nil, &Failure{Code: "Own", Message: "m"} },
	"panic": func(context.Context, []byte) ([]byte, error) { var m map[string]int; m["x"] = 1; return nil, nil },
	"wait": func(ctx context.Context, _ []byte) ([]byte, error) {
		<-ctx.Done()
		return nil, errors.New("something else")
	},
	"late": func(context.Context, []byte) ([]byte, error) { return nil, context.DeadlineExceeded },
}

func TestEveryEndHasItsStatus(t *testing.T) {
	for name, want := range map[string]struct {
		status Status
		code   string
		text   string
	}{
		"fail": {Failed, "Failed", "no luck"}, "code": {Failed, "Own", "m"}, "panic": {Panicked, "Panic", "nil map"},
		"none": {BadCall, "BadCall", `"none"`}, "late": {Failed, "Failed", "deadline"},
	} {
		status, answer := ops.Call(t.Context(), name, nil)
		var failure Failure
		if err := json.Unmarshal(answer, &failure); err != nil {
			t.Fatal(err)
		}
		if status != want.status || failure.Code != want.code || !strings.Contains(failure.Message, want.text) {
			t.Errorf("%s: %d %+v", name, status, failure)
		}
	}
	if status, answer := ops.Call(t.Context(), "echo", []byte("x")); status != OK || string(answer) != "x" {
		t.Errorf("echo: %d %s", status, answer)
	}
}

func TestADeadlineCancels(t *testing.T) {
	var running Running
	ctx, done := running.Begin(1, time.Millisecond)
	defer done()

	if status, answer := ops.Call(ctx, "wait", nil); status != Cancelled {
		t.Errorf("%d %s", status, answer)
	}
}

func TestACallerCancels(t *testing.T) {
	var running Running
	ctx, done := running.Begin(7, 0)
	defer done()
	running.Cancel(8)

	if ctx.Err() != nil {
		t.Error("another call was cancelled")
	}
	running.Cancel(7)
	if status, answer := ops.Call(ctx, "wait", nil); status != Cancelled {
		t.Errorf("%d %s", status, answer)
	}
}
