// Package cel evaluates the CEL expressions of tenants, within one budget for each request.
//
// The budget is cel-go's actual cost, so it does not depend on the machine. What a single step does
// may exceed it; the process ends then, by its limits on processor time and memory.
package cel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	kjson "sigs.k8s.io/json"

	"penstock.dev/engine/internal/call"
)

// Request asks for the values of expressions on a number of cases.
type Request struct {
	Expressions []Expression `json:"expressions"`
	// Shared are variables of all cases.
	Shared map[string]json.RawMessage `json:"shared,omitempty"`
	Cases  []Case                     `json:"cases"`
	// Doubles makes all numbers doubles; else integers are ints, as in objects of Kubernetes.
	Doubles bool `json:"doubles,omitempty"`
	// Budget is what all evaluations together may cost.
	Budget uint64 `json:"budget"`
	// ProcessorMs ends the process when the request has used so much processor time.
	ProcessorMs int64 `json:"processorMs"`
}

// Case has the variables and the steps of one evaluation.
type Case struct {
	With  map[string]json.RawMessage `json:"with,omitempty"`
	Steps []Step                     `json:"steps"`
}

// Step evaluates an expression by its number. Bind keeps the value for the steps after it, under
// that name in the variable Into.
type Step struct {
	Expression int    `json:"expression"`
	Bind       string `json:"bind,omitempty"`
	Into       string `json:"into,omitempty"`
}

// Outcome of a step. Kind is "bool", "string" or "other" for a value, "missing" if a field is not
// there or a type does not fit, and "spent" if the budget was not enough.
type Outcome struct {
	Kind string `json:"kind"`
	Bool bool   `json:"bool,omitempty"`
	// Text is a string, the name of another type, or what is missing.
	Text string `json:"text,omitempty"`
}

// Response has the outcomes of each step of each case.
type Response struct {
	Cases [][]Outcome `json:"cases"`
	Cost  uint64      `json:"cost"`
	// Seconds of processor time that the request used.
	Seconds float64 `json:"seconds"`
}

// longestText is how much of a string is returned.
const longestText = 1024

var (
	known    *programs
	evaluate sync.Mutex
	prepare  = sync.OnceValue(func() (err error) {
		known, err = newPrograms()
		return err
	})
)

// begin waits until no other request is worked on, and watches the processor time of this one. seconds
// returns how much it has used; end must be called.
func begin(processorMs int64) (seconds func() float64, end func(), err error) {
	evaluate.Lock()
	if err := prepare(); err != nil {
		evaluate.Unlock()
		return nil, nil, err
	}
	began := processorTime()
	stop := watch(time.Duration(processorMs) * time.Millisecond)
	seconds = func() float64 { return (processorTime() - began).Seconds() }
	end = func() {
		stop()
		known.tidy()
		evaluate.Unlock()
	}
	return seconds, end, nil
}

// Evaluate is an operation: a Request becomes a Response. The detail of a failure "InvalidExpression"
// is, as "index", the number of the expression.
func Evaluate(ctx context.Context, in []byte) ([]byte, error) {
	var request Request
	if err := json.Unmarshal(in, &request); err != nil {
		return nil, fmt.Errorf("reading the request: %w", err)
	}
	seconds, end, err := begin(request.ProcessorMs)
	if err != nil {
		return nil, err
	}
	defer end()
	known.left = request.Budget
	response := Response{Cases: make([][]Outcome, len(request.Cases))}
	shared, err := decoded(request.Shared, request.Doubles)
	if err != nil {
		return nil, err
	}
	for i, one := range request.Cases {
		if response.Cases[i], err = request.run(ctx, one, shared); err != nil {
			return nil, err
		}
	}
	response.Cost = request.Budget - known.left
	response.Seconds = seconds()
	return json.Marshal(response)
}

func (r *Request) run(ctx context.Context, one Case, shared map[string]any) ([]Outcome, error) {
	variables, err := decoded(one.With, r.Doubles)
	if err != nil {
		return nil, err
	}
	for name, value := range shared {
		variables[name] = value
	}
	outcomes := make([]Outcome, len(one.Steps))
	for i, step := range one.Steps {
		if step.Expression < 0 || step.Expression >= len(r.Expressions) {
			return nil, fmt.Errorf("there is no expression %d", step.Expression)
		}
		program, err := known.of(r.Expressions[step.Expression])
		if err != nil {
			return nil, invalid(step.Expression, err)
		}
		value, err := known.evaluate(ctx, program, variables)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		outcomes[i] = outcome(value, err)
		if step.Into != "" {
			bind(variables, step, value, err)
		}
	}
	return outcomes, nil
}

// bind keeps the value of a step, or null if it has none.
func bind(variables map[string]any, step Step, value ref.Val, err error) {
	bound, ok := variables[step.Into].(map[string]any)
	if !ok {
		bound = map[string]any{}
		variables[step.Into] = bound
	}
	if step.Bind == "" {
		return
	}
	if err != nil {
		value = types.NullValue
	}
	bound[step.Bind] = value
}

func outcome(value ref.Val, err error) Outcome {
	if errors.Is(err, errSpent) {
		return Outcome{Kind: "spent"}
	}
	if err != nil {
		return Outcome{Kind: "missing", Text: shortened(err.Error())}
	}
	switch value := value.(type) {
	case types.Bool:
		return Outcome{Kind: "bool", Bool: bool(value)}
	case types.String:
		if text := []rune(string(value)); len(text) > longestText {
			return Outcome{Kind: "string", Text: string(text[:longestText])}
		}
		return Outcome{Kind: "string", Text: string(value)}
	}
	return Outcome{Kind: "other", Text: value.Type().TypeName()}
}

func decoded(raw map[string]json.RawMessage, doubles bool) (map[string]any, error) {
	values := make(map[string]any, len(raw)+1)
	for name, data := range raw {
		var value any
		read := kjson.UnmarshalCaseSensitivePreserveInts
		if doubles {
			read = json.Unmarshal
		}
		if err := read(data, &value); err != nil {
			return nil, fmt.Errorf("reading the variable %s: %w", name, err)
		}
		values[name] = value
	}
	return values, nil
}

func invalid(index int, err error) error {
	failure := &call.Failure{Code: "InvalidExpression", Message: err.Error()}
	failure.Detail, _ = json.Marshal(map[string]int{"index": index})
	return failure
}
