package cel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"penstock.dev/engine/internal/call"
)

const budget = 1_000_000

func run(t *testing.T, request Request) (Response, error) {
	t.Helper()
	if request.Budget == 0 {
		request.Budget = budget
	}
	in, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	out, err := Evaluate(context.Background(), in)
	if err != nil {
		return Response{}, err
	}
	var response Response
	if err := json.Unmarshal(out, &response); err != nil {
		t.Fatal(err)
	}
	return response, nil
}

func one(t *testing.T, text string, with map[string]string) Outcome {
	t.Helper()
	return costed(t, text, with).Cases[0][0]
}

func costed(t *testing.T, text string, with map[string]string) Response {
	t.Helper()
	raw := map[string]json.RawMessage{}
	for name, value := range with {
		raw[name] = json.RawMessage(value)
	}
	response, err := run(t, Request{
		Expressions: []Expression{{Text: text}},
		Cases:       []Case{{With: raw, Steps: []Step{{}}}},
	})
	if err != nil {
		t.Fatalf("%.80s: %v", text, err)
	}
	return response
}

func TestValuesBecomeOutcomes(t *testing.T) {
	object := map[string]string{
		"metadata": `{"name": "a", "generation": 2, "labels": {"app/x": "y"}}`,
		"status":   `{"conditions": [{"type": "Ready", "status": "True"}], "ratio": 0.5}`,
	}
	for text, want := range map[string]Outcome{
		"status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')":       {Kind: "bool", Bool: true},
		"status.conditions.filter(e, e.type == 'Ready').all(e, e.status == 'False')": {Kind: "bool"},
		"has(status.missing)":                            {Kind: "bool"},
		"metadata.generation == 2.0":                     {Kind: "bool", Bool: true},
		"metadata.generation + 1 == 3":                   {Kind: "bool", Bool: true},
		"status.ratio < 1":                               {Kind: "bool", Bool: true},
		"metadata.name + '/' + metadata.labels['app/x']": {Kind: "string", Text: "a/y"},
		"status.?missing.orValue('none')":                {Kind: "string", Text: "none"},
		"metadata.name.upperAscii()":                     {Kind: "string", Text: "A"},
		"[1].map(x, x)":                                  {Kind: "other", Text: "list"},
		"sets.contains(['a', 'b'], [metadata.name])":     {Kind: "bool", Bool: true},
		"base64.encode(b'a')":                            {Kind: "string", Text: "YQ=="},
		"type(metadata) == map":                          {Kind: "bool", Bool: true},
	} {
		if got := one(t, text, object); got != want {
			t.Errorf("%s: got %+v, want %+v", text, got, want)
		}
	}
	for _, text := range []string{
		"status.missing == 1", "nothing.here == 1", "status.conditions[3].type == 'x'",
		"status.conditions > 3", "1 / int(size(metadata.name) - 1) == 1",
	} {
		if got := one(t, text, object); got.Kind != "missing" {
			t.Errorf("%s: got %+v", text, got)
		}
	}
}

func TestNumbersAreDoublesWhereFluxHasThem(t *testing.T) {
	request := Request{
		Doubles:     true,
		Expressions: []Expression{{Text: "req.n + 0.5 == 1.5", Variables: []string{"req"}}},
		Shared:      map[string]json.RawMessage{"req": json.RawMessage(`{"n": 1}`)},
		Cases:       []Case{{Steps: []Step{{}}}},
	}
	response, err := run(t, request)
	if err != nil || !response.Cases[0][0].Bool {
		t.Fatalf("got %+v, %v", response, err)
	}
}

func TestAValueIsBoundForTheStepsAfterIt(t *testing.T) {
	names := []string{"claims", "vars"}
	response, err := run(t, Request{
		Expressions: []Expression{
			{Text: "claims.sub.split(':')", Variables: names},
			{Text: "vars.missing.x", Variables: names},
			{Text: "vars.parts[1] == 'b' && vars.lacking == null", Variables: names, Result: "bool"},
		},
		Cases: []Case{{
			With: map[string]json.RawMessage{
				"claims": json.RawMessage(`{"sub": "a:b"}`), "vars": json.RawMessage(`{}`),
			},
			Steps: []Step{
				{Expression: 0, Bind: "parts", Into: "vars"},
				{Expression: 1, Bind: "lacking", Into: "vars"},
				{Expression: 2},
			},
		}},
	})
	if err != nil || !response.Cases[0][2].Bool {
		t.Fatalf("got %+v, %v", response, err)
	}
}

func TestWhatCannotBeEvaluatedIsInvalid(t *testing.T) {
	for _, expression := range []Expression{
		{Text: "1 +"},
		{Text: ""},
		{Text: "nosuch(1) == 1"},
		{Text: "a.matches('(')"},
		{Text: "self.a == 1", Variables: []string{"dep"}},
		{Text: "1 + 1", Result: "bool"},
		{Text: "dep.a == 1", Variables: []string{"dep"}, Result: "string"},
		{Text: strings.Repeat("(", 1000) + "1" + strings.Repeat(")", 1000)},
		{Text: strings.Repeat("[", 2000) + strings.Repeat("]", 2000)},
	} {
		_, err := run(t, Request{
			Expressions: []Expression{{Text: "true"}, expression},
			Cases:       []Case{{Steps: []Step{{}, {Expression: 1}}}},
		})
		var failure *call.Failure
		if !errors.As(err, &failure) || failure.Code != "InvalidExpression" ||
			string(failure.Detail) != `{"index":1}` {
			t.Errorf("%.40s: got %v", expression.Text, err)
		}
	}
}

func repeated(format string, count int) string {
	return strings.TrimSuffix(strings.Repeat(format+"&&", count), "&&")
}

func listed(count int, format string) string {
	items := make([]string, count)
	for i := range items {
		items[i] = fmt.Sprintf(format, i)
	}
	return "[" + strings.Join(items, ",") + "]"
}

func TestWhatCostsTooMuchEndsTheBudget(t *testing.T) {
	long, numbers := `"`+strings.Repeat("a", 1_000_000)+`"`, listed(1000, "%d")
	entries := listed(310, `"c%d"`)
	for text, x := range map[string]string{
		"x.all(a, x.all(b, " + repeated("b!=''", 570) + "))":                                                entries,
		"x.all(a, x.all(b, x.all(c, a + b == b + a)))":                                                      numbers,
		"x" + strings.Repeat("+x", 200) + " == ''":                                                          long,
		"size(x" + strings.Repeat("+x", 200) + ") == 1":                                                     numbers,
		"['" + strings.Repeat("y", 400) + "']" + strings.Repeat(".map(x,x+x+x+x+x)", 10) + "[0].size() > 0": "1",
		"x.all(i, d == d)":                             listed(1000, "%d"),
		"x.all(i, !([d] in [[d, 1]]))":                 listed(1000, "%d"),
		"x.all(i, sets.contains(d[0], d[0]))":          listed(1000, "%d"),
		"x.all(i, s.replace('a', 'bb') != '')":         numbers,
		"x.all(i, s.split('') != [])":                  numbers,
		"x.all(i, s.matches('(a|b){1,100}c') || true)": numbers,
		"x.all(i, s.contains(s) && s.endsWith(s))":     numbers,
		"x.all(i, [s, s].join(s) != '')":               numbers,
		"x.all(i, string(bytes(s)) != '')":             numbers,
		"x.all(i, '%s'.format([s]) != '')":             numbers,
		"x.all(i, s + s == s + s)":                     numbers,
		"x.all(i, s.lowerAscii() == s)":                numbers,
	} {
		with := map[string]string{"x": x, "s": `"` + strings.Repeat("a", 100_000) + `"`,
			"d": "[" + listed(2_000, "%d") + "]"}
		if got := one(t, text, with); got.Kind != "spent" {
			t.Errorf("%.60s: got %+v", text, got)
		}
	}
}

func TestOneBudgetIsForAllCases(t *testing.T) {
	raw := map[string]json.RawMessage{"x": json.RawMessage(listed(310, "%d"))}
	request := Request{
		Expressions: []Expression{{Text: "x.all(a, x.all(b, a != b || a == b))"}, {Text: "true"}},
	}
	for range 100 {
		request.Cases = append(request.Cases, Case{With: raw, Steps: []Step{{}, {Expression: 1}}})
	}

	response, err := run(t, request)
	if err != nil {
		t.Fatal(err)
	}

	first, last := response.Cases[0], response.Cases[99]
	if first[0].Kind != "bool" || last[0].Kind != "spent" || last[1].Kind != "spent" {
		t.Errorf("got %+v and %+v", first, last)
	}
	if response.Cost != budget {
		t.Errorf("cost %d", response.Cost)
	}
}

func TestEachRequestHasItsOwnBudget(t *testing.T) {
	expression := Expression{Text: "own.all(a, own.all(b, a != b || a == b))"}
	in, _ := json.Marshal(CheckRequest{Expressions: []Expression{expression}})
	if _, err := Check(context.Background(), in); err != nil {
		t.Fatal(err)
	}
	raw := map[string]json.RawMessage{"own": json.RawMessage(listed(30, "%d"))}
	for _, one := range []struct {
		budget uint64
		want   string
	}{{budget, "bool"}, {100, "spent"}, {budget, "bool"}} {
		response, err := run(t, Request{
			Budget:      one.budget,
			Expressions: []Expression{expression},
			Cases:       []Case{{With: raw, Steps: []Step{{}}}},
		})
		if err != nil || response.Cases[0][0].Kind != one.want {
			t.Errorf("budget %d: got %+v, %v", one.budget, response, err)
		}
	}
}

func TestWhatLaterCasesCostIsTakenFromWhatIsLeft(t *testing.T) {
	raw := map[string]json.RawMessage{"x": json.RawMessage(listed(900, "%d"))}
	step := []Step{{}}
	response, err := run(t, Request{
		Budget:      10_000,
		Expressions: []Expression{{Text: "x.all(a, a != a || a == a)"}},
		Cases:       []Case{{With: raw, Steps: step}, {With: raw, Steps: step}},
	})
	if err != nil || response.Cases[0][0].Kind != "bool" || response.Cases[1][0].Kind != "spent" {
		t.Errorf("got %+v, %v", response, err)
	}
}

func TestMacrosThatCopyTheirTargetDoNotMultiply(t *testing.T) {
	chain := func(macro string, count int) string {
		return "optional.of(1)" + strings.Repeat("."+macro+"(x, optional.of(x))", count) + ".hasValue()"
	}
	if got := one(t, chain("optFlatMap", 4), nil); !got.Bool {
		t.Errorf("got %+v", got)
	}
	for _, text := range []string{
		chain("optMap", 40), chain("optFlatMap", 200),
		"[1].all(y, [" + chain("optMap", 16) + "][0])",
		"{'a': optional.of(1)" + strings.Repeat(".optMap(x, [x].all(z, z > 0)).or(optional.of(1))", 16) + "}",
	} {
		_, err := run(t, Request{Expressions: []Expression{{Text: text}}, Cases: []Case{{Steps: []Step{{}}}}})
		var failure *call.Failure
		if !errors.As(err, &failure) || !strings.Contains(failure.Message, "optMap") {
			t.Errorf("%.40s: got %v", text, err)
		}
	}
}

func TestProgramsThatTakeMuchMemoryAreDropped(t *testing.T) {
	patterns := make([]string, 10)
	for i := range patterns {
		patterns[i] = fmt.Sprintf(`'a%d'.matches('^\\pL{900}$')`, i)
	}
	in, _ := json.Marshal(CheckRequest{Expressions: []Expression{{Text: strings.Join(patterns, "||")}}})
	if _, err := Check(context.Background(), in); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	if got := inUse(); got >= keptBytes {
		t.Errorf("%d bytes are in use", got)
	}
}

func TestUsualExpressionsCostLittle(t *testing.T) {
	conditions := listed(30, `{"type": "t%d", "status": "False", "message": "m"}`)
	for text, most := range map[string]uint64{
		"x.filter(e, e.type == 'Ready').all(e, e.status == 'True')":               1000,
		"x.map(e, e.type + '=' + e.status).exists(s, s == 'Ready=True')":          2000,
		"x.exists(e, e.message.matches('^[a-z]{1,63}(\\\\.[a-z]{1,63}){1,10}$'))": 100_000,
	} {
		if got := costed(t, text, map[string]string{"x": conditions}); got.Cost > most {
			t.Errorf("%s: cost %d", text, got.Cost)
		}
	}
}

func TestADeadlineEndsAnEvaluation(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	in, _ := json.Marshal(Request{
		Budget:      1 << 60,
		Expressions: []Expression{{Text: "x.all(a, x.all(b, a != b || a == b))"}},
		Cases: []Case{{
			With:  map[string]json.RawMessage{"x": json.RawMessage(listed(1000, "%d"))},
			Steps: []Step{{}},
		}},
	})
	if _, err := Evaluate(ctx, in); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestProblemsAreFoundWithoutAnObject(t *testing.T) {
	in, _ := json.Marshal(CheckRequest{Expressions: []Expression{
		{Text: "status.ready && metadata.labels.all(k, k != '')", Result: "bool"},
		{Text: "status.ready ="},
		{Text: "a.b.c.nosuch()"},
	}})
	out, err := Check(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	var response CheckResponse
	if err := json.Unmarshal(out, &response); err != nil {
		t.Fatal(err)
	}
	if p := response.Problems; p[0] != "" || p[1] == "" || !strings.Contains(p[2], "nosuch") {
		t.Errorf("got %q", p)
	}
}

func BenchmarkEvaluate(b *testing.B) {
	with := map[string]json.RawMessage{
		"status": json.RawMessage(`{"conditions": [{"type": "Ready", "status": "True"}]}`),
	}
	expression := Expression{Text: "status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')"}
	for _, cases := range []int{1, 100} {
		request := Request{Budget: budget, Expressions: []Expression{expression}}
		for range cases {
			request.Cases = append(request.Cases, Case{With: with, Steps: []Step{{}}})
		}
		in, _ := json.Marshal(request)
		b.Run(fmt.Sprintf("cases=%d", cases), func(b *testing.B) {
			for b.Loop() {
				if _, err := Evaluate(context.Background(), in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	found, err := newPrograms()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		clear(found.compiled)
		if _, err := found.of(Expression{Text: "status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')"}); err != nil {
			b.Fatal(err)
		}
	}
}
