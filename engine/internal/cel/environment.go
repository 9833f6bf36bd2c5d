package cel

import (
	"fmt"
	"sort"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
)

// Expression is a text, with what it may name and what it has to yield.
type Expression struct {
	Text string `json:"text"`
	// Variables are the names of the maps that it may read. Without any it may name every field of
	// the object that it is evaluated on.
	Variables []string `json:"variables,omitempty"`
	// Result is "bool", "string", or empty for any type. What is known only when the expression is
	// evaluated is judged then.
	Result string `json:"result,omitempty"`
}

func (e Expression) key() string {
	return strings.Join(append([]string{e.Result, e.Text}, e.Variables...), "\x00")
}

// options are those of Flux (fluxcd/pkg runtime/cel/expression.go), so that expressions mean here
// what they mean there.
var options = []cel.EnvOption{
	cel.EagerlyValidateDeclarations(true),
	cel.DefaultUTCTimeZone(true),
	cel.CrossTypeNumericComparisons(true),
	cel.OptionalTypes(),
	ext.Strings(),
	ext.Sets(),
	ext.Encoders(),
}

// compile parses and checks an expression. The parser has cel-go's limits: 250 levels of syntax, and
// 30 errors.
func compile(base, plain *cel.Env, expression Expression) (*cel.Env, *cel.Ast, error) {
	written, issues := plain.Parse(expression.Text)
	if issues.Err() != nil {
		return nil, nil, firstProblem(issues)
	}
	if expanded(written.NativeRep().Expr()) > mostNodes {
		return nil, nil, fmt.Errorf("the expression has too many calls of optMap and optFlatMap"+
			" on the results of others: with what they stand for, it has more than %d parts", mostNodes)
	}
	if depth(written.NativeRep().Expr()) > mostLevels {
		return nil, nil, errDeep
	}
	parsed, issues := base.Parse(expression.Text)
	if issues.Err() != nil {
		return nil, nil, firstProblem(issues)
	}
	env, err := base.Extend(declared(expression, parsed)...)
	if err != nil {
		return nil, nil, err
	}
	checked, issues := env.Check(parsed)
	if issues.Err() != nil {
		return nil, nil, firstProblem(issues)
	}
	wanted := map[string]*types.Type{"bool": types.BoolType, "string": types.StringType}[expression.Result]
	if got := checked.OutputType(); wanted != nil && !wanted.IsExactType(got) && !got.IsExactType(types.DynType) {
		return nil, nil, fmt.Errorf("the expression yields %s, not %s", cel.FormatCELType(got), expression.Result)
	}
	return env, checked, nil
}

func declared(expression Expression, parsed *cel.Ast) []cel.EnvOption {
	var found []cel.EnvOption
	if len(expression.Variables) > 0 {
		found = append(found, cel.HomogeneousAggregateLiterals()) // Flux only parses the others
	}
	for _, name := range expression.Variables {
		found = append(found, cel.Variable(name, cel.MapType(cel.StringType, cel.DynType)))
	}
	if len(expression.Variables) == 0 {
		for _, name := range named(parsed.NativeRep().Expr()) {
			found = append(found, cel.Variable(name, cel.DynType))
		}
	}
	return found
}

// named returns the names that an expression takes from outside, in order. A name that a macro
// declares is among them if it is used elsewhere as well.
func named(root ast.Expr) []string {
	free := map[string]struct{}{}
	collect(root, map[string]int{}, free)
	names := make([]string, 0, len(free))
	for name := range free {
		if _, isType := typeNames[name]; !isType {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}

// typeNames are identifiers of the language itself.
var typeNames = map[string]struct{}{
	"bool": {}, "bytes": {}, "double": {}, "int": {}, "list": {}, "map": {}, "null_type": {},
	"optional_type": {}, "string": {}, "type": {}, "uint": {},
	"optional": {}, "google": {}, "strings": {}, "sets": {}, "base64": {},
}

func collect(expr ast.Expr, bound map[string]int, free map[string]struct{}) {
	switch expr.Kind() {
	case ast.IdentKind:
		if name := strings.TrimPrefix(expr.AsIdent(), "."); bound[name] == 0 {
			free[name] = struct{}{}
		}
	case ast.SelectKind:
		collect(expr.AsSelect().Operand(), bound, free)
	case ast.CallKind:
		call := expr.AsCall()
		if call.IsMemberFunction() {
			collect(call.Target(), bound, free)
		}
		for _, arg := range call.Args() {
			collect(arg, bound, free)
		}
	case ast.ListKind:
		for _, element := range expr.AsList().Elements() {
			collect(element, bound, free)
		}
	case ast.MapKind:
		for _, entry := range expr.AsMap().Entries() {
			collect(entry.AsMapEntry().Key(), bound, free)
			collect(entry.AsMapEntry().Value(), bound, free)
		}
	case ast.StructKind:
		for _, field := range expr.AsStruct().Fields() {
			collect(field.AsStructField().Value(), bound, free)
		}
	case ast.ComprehensionKind:
		collectFold(expr.AsComprehension(), bound, free)
	}
}

func collectFold(fold ast.ComprehensionExpr, bound map[string]int, free map[string]struct{}) {
	collect(fold.IterRange(), bound, free)
	collect(fold.AccuInit(), bound, free)
	inside := []string{fold.IterVar(), fold.AccuVar()}
	if fold.HasIterVar2() {
		inside = append(inside, fold.IterVar2())
	}
	for _, name := range inside {
		bound[name]++
	}
	collect(fold.LoopCondition(), bound, free)
	collect(fold.LoopStep(), bound, free)
	collect(fold.Result(), bound, free)
	for _, name := range inside {
		bound[name]--
	}
}

// firstProblem returns the first error of cel-go without the picture of where it is.
func firstProblem(issues *cel.Issues) error {
	first := issues.Errors()[0]
	message, _, _ := strings.Cut(first.Message, "\n")
	message = strings.TrimPrefix(message, "Syntax error: ")
	return fmt.Errorf("column %d: %s", first.Location.Column()+1, shortened(message))
}

const longestMessage = 200

func shortened(text string) string {
	if runes := []rune(text); len(runes) > longestMessage {
		return string(runes[:longestMessage]) + "…"
	}
	return text
}
