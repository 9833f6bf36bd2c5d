package cel

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// keptCharacters of expressions stay compiled: their programs are a hundred times as large.
const keptCharacters = 64 << 10

// keptBytes of memory may be in use between requests: four times what the programs of
// keptCharacters usually take.
const keptBytes = 32 << 20

// checkedEvery is after how many iterations a program looks whether it was interrupted, as in
// Kubernetes.
const checkedEvery = 100

// programs are the compiled expressions of a process, and what they may still cost. One evaluation
// runs at a time.
type programs struct {
	base       *cel.Env
	plain      *cel.Env // has no macros
	compiled   map[string]cel.Program
	characters int
	left       uint64
}

func newPrograms() (*programs, error) {
	base, err := cel.NewEnv(options...)
	if err != nil {
		return nil, fmt.Errorf("making the environment of CEL: %w", err)
	}
	plain, err := base.Extend(cel.ClearMacros())
	if err != nil {
		return nil, fmt.Errorf("making the environment of CEL: %w", err)
	}
	return &programs{base: base, plain: plain, compiled: map[string]cel.Program{}}, nil
}

// of returns the program of an expression, compiled once.
func (p *programs) of(expression Expression) (cel.Program, error) {
	key := expression.key()
	if program, ok := p.compiled[key]; ok {
		return program, nil
	}
	env, checked, err := compile(p.base, p.plain, expression)
	if err != nil {
		return nil, err
	}
	program, err := env.Program(checked,
		cel.EvalOptions(cel.OptOptimize),
		cel.InterruptCheckFrequency(checkedEvery),
		cel.CostTracking(costs{}),
		cel.CostTrackerOptions(p.limit),
	)
	if err != nil {
		return nil, errors.New(shortened(err.Error()))
	}
	if p.characters += len(key); p.characters > keptCharacters {
		clear(p.compiled)
		p.characters = len(key)
	}
	p.compiled[key] = program
	return program, nil
}

// limit gives each evaluation what is left of the budget then: cel-go makes the tracker with the
// program, and each evaluation copies it.
func (p *programs) limit(tracker *interpreter.CostTracker) error {
	tracker.Limit = &p.left
	return nil
}

// tidy drops the programs if they take much memory, so that no request finds a worker that earlier
// requests have filled: a short pattern can take megabytes.
func (p *programs) tidy() {
	if inUse() < keptBytes {
		return
	}
	if runtime.GC(); inUse() >= keptBytes {
		clear(p.compiled)
		p.characters = 0
	}
	debug.FreeOSMemory()
}

func inUse() uint64 {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return memory.HeapAlloc
}

var errSpent = errors.New("the budget is spent")

// evaluate runs a program and takes its cost from the budget. It returns errSpent if that is not
// enough, and the error of the context if it has ended.
func (p *programs) evaluate(ctx context.Context, program cel.Program, variables map[string]any) (ref.Val, error) {
	if p.left == 0 {
		return nil, errSpent
	}
	value, details, err := program.ContextEval(ctx, variables)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var cancelled interpreter.EvalCancelledError
	if errors.As(err, &cancelled) {
		p.left = 0
		return nil, errSpent
	}
	if details != nil && details.ActualCost() != nil {
		p.left -= min(p.left, *details.ActualCost())
	}
	return value, err
}
