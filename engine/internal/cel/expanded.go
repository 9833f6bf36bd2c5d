package cel

import (
	"github.com/google/cel-go/common/ast"
)

// mostNodes is how many parts an expression may have after its macros are expanded: more than fit
// into its longest text. Each takes about 10 µs and 10 KiB to compile.
const mostNodes = 4096

// perMacro is how many parts a macro has besides its arguments, at most.
const perMacro = 10

// copying are the macros that stand for their target twice, so a chain of them doubles with each.
var copying = map[string]struct{}{"optMap": {}, "optFlatMap": {}}

// expanded returns how many parts an expression without macros has with them, up to one more than
// mostNodes.
func expanded(expr ast.Expr) uint64 {
	var size uint64 = 1
	add := func(part ast.Expr) { size = min(size+expanded(part), mostNodes+1) }
	switch expr.Kind() {
	case ast.SelectKind:
		add(expr.AsSelect().Operand())
	case ast.CallKind:
		call := expr.AsCall()
		for _, arg := range call.Args() {
			add(arg)
		}
		if call.IsMemberFunction() {
			target := expanded(call.Target())
			if _, copies := copying[call.FunctionName()]; copies {
				target = 2*target + perMacro
			}
			size = min(size+target, mostNodes+1)
		}
	case ast.ListKind:
		for _, element := range expr.AsList().Elements() {
			add(element)
		}
	case ast.MapKind:
		for _, entry := range expr.AsMap().Entries() {
			add(entry.AsMapEntry().Key())
			add(entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, field := range expr.AsStruct().Fields() {
			add(field.AsStructField().Value())
		}
	}
	return size
}
