package cel

import (
	"math"
	"regexp/syntax"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// perUnit is how many characters cost as much as one step: cel-go's StringTraversalCostFactor.
const perUnit = 10

// heaviest is where a weight ends: more than any budget.
const heaviest = 1 << 28

// costs charges for what cel-go counts as one step although it may be many. cel-go knows the cost of
// an overload, but between values whose types are known only at run time it does not know the
// overload. It also counts only the outermost level of what is compared.
type costs struct{}

// CallCost is that of a call that was just made; nil leaves it to cel-go.
func (costs) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	switch function {
	case "_+_":
		return added(result)
	case "_==_", "_!=_":
		return units(min(weight(args[0]), weight(args[1])))
	case "@in", "_in_", "in":
		return units(weight(args[len(args)-1]) + weight(args[0]))
	case "sets.contains", "sets.equivalent", "sets.intersects":
		return units(product(weight(args[0]), weight(args[1])/perUnit))
	case "matches":
		if len(args) == 2 {
			return matched(args[0], args[1])
		}
	case "string", "bytes", "base64.encode", "base64.decode", "strings.quote", "format", "join",
		"_<_", "_<=_", "_>_", "_>=_":
		return units(weight(result) + sum(args))
	}
	return nil
}

// added charges for each character and each element of the sum: a sum of lists is a tree, and each
// look at an element goes through its levels.
func added(result ref.Val) *uint64 {
	size := shallow(result)
	if _, isList := result.(traits.Lister); isList {
		size *= perUnit
	}
	return units(size)
}

func matched(text, pattern ref.Val) *uint64 {
	expanded := uint64(1)
	if source, ok := pattern.(types.String); ok {
		if parsed, err := syntax.Parse(string(source), syntax.Perl); err == nil {
			expanded = instructions(parsed)
		}
	}
	// The pattern is compiled each time, if it is not a literal.
	cost := expanded/2 + product(1+shallow(text)/perUnit, 1+expanded/4)
	return &cost
}

// instructions is about what a pattern compiles to.
func instructions(pattern *syntax.Regexp) uint64 {
	size := uint64(1 + len(pattern.Rune)/2)
	for _, sub := range pattern.Sub {
		size += instructions(sub)
	}
	if pattern.Op == syntax.OpRepeat {
		size = product(size, uint64(max(pattern.Min, pattern.Max, 1)))
	}
	return size
}

func sum(values []ref.Val) uint64 {
	var size uint64
	for _, value := range values {
		size += weight(value)
	}
	return size
}

// weight is the number of characters in a value, and perUnit for each value inside it.
func weight(value ref.Val) uint64 {
	left := uint64(heaviest)
	weigh(value, &left)
	return heaviest - left
}

func weigh(value ref.Val, left *uint64) {
	*left -= min(*left, perUnit)
	switch value := value.(type) {
	case types.String, types.Bytes:
		*left -= min(*left, shallow(value))
	case traits.Mapper:
		for it := value.Iterator(); *left > 0 && it.HasNext() == types.True; {
			key := it.Next()
			weigh(key, left)
			if found, ok := value.Find(key); ok {
				weigh(found, left)
			}
		}
	case traits.Lister:
		for it := value.Iterator(); *left > 0 && it.HasNext() == types.True; {
			weigh(it.Next(), left)
		}
	}
}

func shallow(value ref.Val) uint64 {
	if sized, ok := value.(traits.Sizer); ok {
		if size, ok := sized.Size().(types.Int); ok {
			return uint64(size)
		}
	}
	return 1
}

func units(size uint64) *uint64 {
	cost := 1 + size/perUnit
	return &cost
}

func product(a, b uint64) uint64 {
	if a != 0 && b > math.MaxUint32/a {
		return math.MaxUint32
	}
	return a * b
}
