package cel

import (
	"strings"
	"testing"
)

func TestDepthOfListsMapsAndCallsIsLimited(t *testing.T) {
	programs, err := newPrograms()
	if err != nil {
		t.Fatal(err)
	}
	repeat := strings.Repeat
	for name, nested := range map[string]func(levels int) string{
		"lists":     func(n int) string { return repeat("[", n) + repeat("]", n) },
		"values":    func(n int) string { return repeat("{'a': ", n) + "1" + repeat("}", n) },
		"keys":      func(n int) string { return repeat("{", n) + "1" + repeat(": 1}", n) },
		"functions": func(n int) string { return repeat("type(", n) + "1" + repeat(")", n) },
		"optionals": func(n int) string { return repeat("optional.of(", n) + "1" + repeat(")", n) },
		"macros":    func(n int) string { return repeat("self.map(x, ", n) + "1" + repeat(")", n) },
		"chain":     func(n int) string { return "self" + repeat(".map(x, [x])", n-1) },
		"wide":      func(n int) string { return "[1, " + repeat("[", n-1) + repeat("]", n-1) + "]" },
		"sums":      func(n int) string { return repeat("[dyn(1)] + [", n-1) + "dyn(1)" + repeat("]", n-1) },
	} {
		_, err := programs.of(Expression{Text: nested(mostLevels)})
		if err == errDeep {
			t.Errorf("%s: %d levels are refused", name, mostLevels)
		}
		if _, err := programs.of(Expression{Text: nested(mostLevels + 1)}); err != errDeep {
			t.Errorf("%s: %d levels: got %v", name, mostLevels+1, err)
		}
	}
}

func TestLongChainsOfOperatorsAndFieldsAreNoLevels(t *testing.T) {
	programs, err := newPrograms()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"'a'" + strings.Repeat(" + self.a", 200),
		"self" + strings.Repeat(".a", 200),
		"self" + strings.Repeat(".?a", 200),
		"self" + strings.Repeat("['a']", 200),
		"self.a" + strings.Repeat(" || self.a", 300),
		strings.Repeat("(", 200) + "self.a" + strings.Repeat(")", 200),
		strings.Repeat("self.a ? 1 : ", 100) + "2",
	} {
		if _, err := programs.of(Expression{Text: text}); err != nil {
			t.Errorf("%.40s: %v", text, err)
		}
	}
}
