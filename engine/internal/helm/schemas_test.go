package helm

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common/util"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
)

func with(name, schema string) *chartv2.Chart {
	return &chartv2.Chart{Metadata: &chartv2.Metadata{Name: name}, Schema: []byte(schema)}
}

func TestSchemaThatLeavesItselfIsClosed(t *testing.T) {
	for _, schema := range []string{
		`{"$ref": "file:///etc/hostname"}`,
		`{"$ref": "other.json"}`,
		`{"$ref": "ftp://127.0.0.1/x"}`,
		`{"allOf": [{"$ref": "https://127.0.0.1/x"}, {"$ref": "file:///etc/hostname"}]}`,
		`{"properties": {"a": {"pattern": "("}, "b": {"$ref": "file:///etc/hostname"}}}`,
		`{"$ref": 1}`,
		`{`,
	} {
		chart := with("shop", schema)

		all := closeSchemas(chart)

		if len(all.closed) != 1 || string(chart.Schema) != `{"$ref":"closed:0"}` {
			t.Errorf("%s is open: %s", schema, chart.Schema)
		}
	}
}

func TestSchemaThatStaysWithinItselfIsLeftAlone(t *testing.T) {
	for _, schema := range []string{
		`{}`,
		`{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}`,
		`{"$defs": {"a": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/a"}}}`,
		`{"properties": {"a": {"$ref": "urn:example:any"}}}`,
	} {
		chart := with("shop", schema)

		if all := closeSchemas(chart); len(all.closed) != 0 || len(all.unchecked) != 0 || string(chart.Schema) != schema {
			t.Errorf("%s is closed: %v", schema, all)
		}
	}
}

func TestFailureNamesTheSchemaThatIsClosed(t *testing.T) {
	chart, part := with("shop", `{"$ref": "file:///a"}`), with("part", `{"$ref": "file:///b"}`)
	chart.AddDependency(part)
	all := closeSchemas(chart)
	other := errors.New("another failure")

	got := all.explained(fmt.Errorf("no loader for %q", "closed:1"))

	if !strings.HasPrefix(got.Error(), `values.schema.json of chart "part" refers to "file:///b": `) {
		t.Errorf("got %v", got)
	}
	if all.explained(other) != other || all.explained(nil) != nil {
		t.Error("another failure is exchanged")
	}
}

func TestReferencesToOtherHostsAreCutAndTheRestIsChecked(t *testing.T) {
	for _, each := range []struct{ schema, good, bad string }{
		{`{"properties": {"a": {"$ref": "https://u:p@host.example/s.json#/a?b"}, "b": {"type": "string"}}}`, `{"a": 1}`, `{"b": 1}`},
		{`{"$ref": "https://host.example/s.json", "required": ["b"]}`, `{"b": 1}`, `{}`},
		{`{"$id": "https://host.example/root.json", "properties": {"a": {"$ref": "part.json#/x"}, "b": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "number"}}}`, `{"a": 1, "b": 1}`, `{"b": ""}`},
		{`{"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"$ref": {"type": "string"}, "a": {"allOf": [{"$ref": "http://host.example/"}]}}}`, `{"a": []}`, `{"$ref": 1}`},
		{`{"items": {"$ref": "https://host.example/1"}, "properties": {"a": {"$ref": "https://host.example/2"}, "enum": {"$ref": "https://host.example/1"}, "b": {"const": {"$ref": "https://host.example/1"}}}}`, `{"b": {"$ref": "https://host.example/1"}}`, `{"b": 1}`},
		{`{"$schema": "https://host.example/dialect", "type": "string"}`, `{"a": 1}`, ""},
	} {
		chart := with("shop", each.schema)

		all := closeSchemas(chart)

		if len(all.closed) != 0 || len(all.unchecked) == 0 || strings.Contains(strings.Join(all.unchecked, " "), "u:p") {
			t.Fatalf("%s: %v %v", each.schema, all.closed, all.unchecked)
		}
		if err := validate(t, chart, each.good); err != nil {
			t.Errorf("%s refuses %s: %v", each.schema, each.good, err)
		}
		if each.bad != "" && validate(t, chart, each.bad) == nil {
			t.Errorf("%s takes %s", each.schema, each.bad)
		}
		if all.restore(); string(chart.Schema) != each.schema {
			t.Errorf("the record has %s", chart.Schema)
		}
	}
}

func validate(t *testing.T, chart *chartv2.Chart, values string) error {
	t.Helper()
	var read map[string]any
	if err := json.Unmarshal([]byte(values), &read); err != nil {
		t.Fatal(err)
	}
	return util.ValidateAgainstSchema(chart, read)
}

func TestManyHostsAreNotFollowed(t *testing.T) {
	refs := make([]string, 2*maxHosts)
	for i := range refs {
		refs[i] = fmt.Sprintf(`{"$ref": "https://host.example/%d"}`, i)
	}

	few := closeSchemas(with("shop", `{"allOf": [`+strings.Join(refs[:maxHosts], ",")+`]}`))
	many := closeSchemas(with("shop", `{"allOf": [`+strings.Join(refs, ",")+`]}`))

	if len(few.closed) != 0 || len(few.unchecked) != maxTold+1 || len(many.closed) != 1 {
		t.Errorf("%v %v", few.unchecked, many.closed)
	}
}
