// Package call runs named operations so that nothing but a fatal error of the runtime escapes them.
package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// Status tells how a call ended. The numbers are part of the ABI.
type Status int32

const (
	OK        Status = 0
	Failed    Status = 1 // the answer is a Failure
	Cancelled Status = 2 // the deadline passed or the caller cancelled; the answer is a Failure
	Panicked  Status = 3 // a bug, ours or a library's; the answer is a Failure with a stack
	BadCall   Status = 4 // no such operation; the answer is a Failure
)

// Failure is the answer of a call that did not succeed.
type Failure struct {
	// Code is a CamelCase word that programs may compare.
	Code string `json:"code"`
	// Message is for people.
	Message string `json:"message"`
	// Detail belongs to the operation.
	Detail json.RawMessage `json:"detail,omitempty"`
}

func (f *Failure) Error() string { return f.Message }

// Operation takes and returns JSON. It returns an error, a *Failure if programs should tell it from
// others.
type Operation func(ctx context.Context, request []byte) ([]byte, error)

// Operations are found by name.
type Operations map[string]Operation

// Call runs the operation called name. The process ends if its heap grows above what GOMEMLIMIT
// allows; without that variable nothing is watched.
func (ops Operations) Call(ctx context.Context, name string, request []byte) (status Status, answer []byte) {
	defer func() {
		if r := recover(); r != nil {
			failure := Failure{Code: "Panic", Message: fmt.Sprintf("%s panicked: %v", name, r)}
			failure.Detail, _ = json.Marshal(string(debug.Stack()))
			status, answer = Panicked, encode(&failure)
		}
	}()
	op, ok := ops[name]
	if !ok {
		return BadCall, encode(&Failure{Code: "BadCall", Message: fmt.Sprintf("no operation %q", name)})
	}
	defer guard()()
	answer, err := op(ctx, request)
	switch {
	case err == nil:
		return OK, answer
	case ctx.Err() != nil:
		// Only the context tells: a library's own timeouts are errors like others.
		return Cancelled, encode(&Failure{Code: "Cancelled", Message: name + ": " + ctx.Err().Error()})
	default:
		return Failed, encode(asFailure(err))
	}
}

func asFailure(err error) *Failure {
	var failure *Failure
	if errors.As(err, &failure) {
		return failure
	}
	return &Failure{Code: "Failed", Message: err.Error()}
}

func encode(failure *Failure) []byte {
	answer, err := json.Marshal(failure)
	if err != nil {
		return []byte(`{"code":"Failed","message":"the failure could not be encoded"}`)
	}
	return answer
}

// Running holds the calls that can be cancelled.
type Running struct{ cancels sync.Map }

// Begin returns the context of the call id, without a deadline if timeout is 0, and what to do when
// the call is done.
func (r *Running) Begin(id uint64, timeout time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	if timeout > 0 {
		ctx, cancel = context.WithTimeout(context.Background(), timeout)
	}
	r.cancels.Store(id, cancel)
	return ctx, func() {
		r.cancels.Delete(id)
		cancel()
	}
}

// Cancel ends the call id if it runs.
func (r *Running) Cancel(id uint64) {
	if cancel, ok := r.cancels.Load(id); ok {
		cancel.(context.CancelFunc)()
	}
}
