package cel

import (
	"fmt"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// mostLevels is how deep lists, maps and calls may be nested. Each can put a type around another
// one, and the time that cel-go takes to check types grows with the cube of their depth.
const mostLevels = 64

var errDeep = fmt.Errorf("lists, maps and calls are nested more than %d levels deep: nest them less,"+
	" or shorten the chain of calls", mostLevels)

// depth returns how many lists, maps and calls of an expression without macros lie within each
// other. A call lies around its target, so each call of a chain is a level. Operators and fields
// are none: they put no type around another.
func depth(expr ast.Expr) int {
	levels := 0
	within := func(part ast.Expr) { levels = max(levels, depth(part)) }
	switch expr.Kind() {
	case ast.SelectKind:
		within(expr.AsSelect().Operand())
	case ast.CallKind:
		call := expr.AsCall()
		if call.IsMemberFunction() {
			within(call.Target())
		}
		for _, arg := range call.Args() {
			within(arg)
		}
		if _, isOperator := operators.FindReverse(call.FunctionName()); !isOperator {
			levels++
		}
	case ast.ListKind:
		for _, element := range expr.AsList().Elements() {
			within(element)
		}
		levels++
	case ast.MapKind:
		for _, entry := range expr.AsMap().Entries() {
			within(entry.AsMapEntry().Key())
			within(entry.AsMapEntry().Value())
		}
		levels++
	case ast.StructKind:
		for _, field := range expr.AsStruct().Fields() {
			within(field.AsStructField().Value())
		}
		levels++
	}
	return levels
}
