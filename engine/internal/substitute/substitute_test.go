package substitute

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"penstock.dev/engine/internal/call"
)

func run(t *testing.T, request Request) (*Response, error) {
	t.Helper()
	in, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	out, err := Run(t.Context(), in)
	if err != nil {
		return nil, err
	}
	var response Response
	return &response, json.Unmarshal(out, &response)
}

func TestVariablesBecomeTheirValues(t *testing.T) {
	variables := map[string]string{
		"name": "web", "n": "3", "yes": "true", "path": "a/b/a", "long": "abcdef", "empty": "", "quoted": `say "hi"`,
		"_x1": "under", "map": "{a: 1}", "umlaut": "äöü",
	}
	for in, want := range map[string]string{
		"${name}": `"web"`, "x-${name}-y": `"x-web-y"`, "${n}": `3`, "${yes}": `true`, "v${n}": `"v3"`, "${_x1}": `"under"`,
		"${absent:-d}": `"d"`, "${absent:=d}": `"d"`, "${absent:-${name}}": `"web"`, "${empty:-d}": `"d"`, "${name:-d}": `"web"`,
		"${absent:-}": `null`, "${absent}": `null`, "x${absent}": `"x"`, "${absent:=8080}": `8080`,
		"${path/a/c}": `"c/b/a"`, "${path//a/c}": `"c/b/c"`, "${path/#a/c}": `"c/b/a"`, "${path/%a/c}": `"a/b/c"`,
		"${long:0:3}": `"abc"`, "${long:2}": `"cdef"`, "${long:-3}": `"abcdef"`, "${long: -3}": `"abcdef"`, "${long:1:-1}": `"bcde"`, "${#long}": `6`,
		"${name^^}": `"WEB"`, "${name^}": `"Web"`, "${name,,}": `"web"`, "${long%ef}": `"abcd"`, "${long#ab}": `"cdef"`,
		"${path##*/}": `"a"`, "${path%%/*}": `"a"`,
		"$${name}": `"${name}"`, "$name": `"$name"`, "$(name)": `"$(name)"`, "$$": `"$"`, "100$": `"100$"`,
		"${map}": `{"a":1}`, "${quoted}": `"say \"hi\""`, "${umlaut^^}": `"ÄÖÜ"`,
	} {
		object, _ := json.Marshal(map[string]string{"v": in})
		response, err := run(t, Request{Objects: []json.RawMessage{object}, Variables: variables})
		if err != nil {
			t.Errorf("%s: %v", in, err)
		} else if got := string(response.Objects[0]); got != `{"v":`+want+`}` {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
	}
}

func TestFieldNamesAreSubstitutedToo(t *testing.T) {
	response, err := run(t, Request{Objects: []json.RawMessage{[]byte(`{"${k}":"v"}`)}, Variables: map[string]string{"k": "key"}})

	if err != nil || string(response.Objects[0]) != `{"key":"v"}` {
		t.Errorf("%v, %v", response, err)
	}
}

func TestWhatCannotBeSubstitutedFails(t *testing.T) {
	for in, want := range map[string]string{
		"${name":                        "closing brace",
		"${}":                           "variable name",
		"${a b}":                        "closing brace",
		"${break}":                      "not YAML any more",
		"${long:1:9223372036854775807}": "",
		"${long/a}":                     "bad substitution",
	} {
		object, _ := json.Marshal(map[string]string{"v": in})
		request := Request{Objects: []json.RawMessage{[]byte(`{}`), object}, Variables: map[string]string{"break": "{a: [", "long": "abc"}}
		in, _ := json.Marshal(request)
		_, out := call.Operations{"substitute": Run}.Call(context.Background(), "substitute", in)
		if !strings.Contains(string(out), want) {
			t.Errorf("%s: %s", object, out)
		}
	}
}

func TestStrictWantsEveryVariable(t *testing.T) {
	for in, fails := range map[string]bool{"${a}": true, "${#a}": true, "${a/x/y}": true, "${a:-d}": false, "${a:=d}": false, "$${a}": false, "${b}": false} {
		object, _ := json.Marshal(map[string]string{"v": in})
		request := Request{Objects: []json.RawMessage{[]byte(`{"v":1}`), object}, Variables: map[string]string{"b": ""}, Strict: true}
		_, err := run(t, request)
		if (err != nil) != fails {
			t.Errorf("%s: %v", in, err)
		}
		var failure *call.Failure
		if fails && (!errors.As(err, &failure) || failure.Code != "SubstitutionFailed" || string(failure.Detail) != `{"index":1}`) {
			t.Errorf("%s: %+v", in, failure)
		}
	}
}

func TestObjectsWithoutVariablesAreNotTouched(t *testing.T) {
	object := `{"z":1.0,"a":1e400,"d":"2001-12-14t21:59:43.10-05:00","b":9007199254740993}`

	response, err := run(t, Request{Objects: []json.RawMessage{[]byte(object)}})

	if err != nil || string(response.Objects[0]) != object {
		t.Errorf("%v, %v", response, err)
	}
}

func TestTypesThatAreNotVariablesStay(t *testing.T) {
	object := `{"a":"1","b":"true","c":"null","d":1.5,"e":9007199254740993,"f":[],"g":{},"h":null,"i":"yes","j":"0x1F","k":"1e3","l":"a\nb\n","m":"2001-01-01","v":"${v}"}`

	response, err := run(t, Request{Objects: []json.RawMessage{[]byte(object)}, Variables: map[string]string{"v": "x"}})

	if want := strings.Replace(object, "${v}", "x", 1); err != nil || string(response.Objects[0]) != want {
		t.Errorf("%s, %v", response.Objects, err)
	}
}

func TestTextIsReplacedLineByLine(t *testing.T) {
	text := "a: \"${a}\"\nb: 'it''s ${quoted}' # ${absent}\n\nn: ${n:=3}"
	in, _ := json.Marshal(TextRequest{Text: text, Variables: map[string]string{"a": "x", "quoted": `'"`}})

	out, err := RunText(t.Context(), in)

	var response TextResponse
	if err == nil {
		err = json.Unmarshal(out, &response)
	}
	if want := "a: \"x\"\nb: 'it''s '\"' # \n\nn: 3"; err != nil || response.Text != want {
		t.Errorf("%q, %v", response.Text, err)
	}
}

func TestStrictTextNamesTheLine(t *testing.T) {
	in, _ := json.Marshal(TextRequest{Text: "ok\n${a}\n", Strict: true})

	_, err := RunText(t.Context(), in)

	var failure *call.Failure
	if !errors.As(err, &failure) || failure.Code != "SubstitutionFailed" || string(failure.Detail) != `{"line":2}` {
		t.Errorf("%+v", err)
	}
}
