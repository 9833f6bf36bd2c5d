package helm

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
)

func with(name, schema string) *chartv2.Chart {
	return &chartv2.Chart{Metadata: &chartv2.Metadata{Name: name}, Schema: []byte(schema)}
}

func TestSchemaThatLeavesItselfIsClosed(t *testing.T) {
	for _, schema := range []string{
		`{"$ref": "file:///etc/hostname"}`,
		`{"$ref": "other.json"}`,
		`{"properties": {"a": {"items": {"$ref": "http://127.0.0.1/x"}}}}`,
		`{"$schema": "https://127.0.0.1/draft"}`,
		`{"$id": "http://127.0.0.1/root.json", "$ref": "part.json"}`,
		`{"properties": {"a": {"pattern": "("}, "b": {"$ref": "file:///etc/hostname"}}}`,
		`{"$ref": 1}`,
		`{`,
	} {
		chart := with("shop", schema)

		all := closeSchemas(chart)

		if len(all) != 1 || string(chart.Schema) != `{"$ref":"closed:0"}` {
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

		if all := closeSchemas(chart); len(all) != 0 || string(chart.Schema) != schema {
			t.Errorf("%s is closed: %v", schema, all)
		}
	}
}

func TestFailureNamesTheSchemaThatIsClosed(t *testing.T) {
	chart, part := with("shop", `{"$ref": "file:///a"}`), with("part", `{"$ref": "file:///b"}`)
	chart.AddDependency(part)
	all := closeSchemas(chart)
	other := errors.New("another failure")

	got := explained(fmt.Errorf("no loader for %q", "closed:1"), all)

	if !strings.HasPrefix(got.Error(), `values.schema.json of chart "part" refers to "file:///b": `) {
		t.Errorf("got %v", got)
	}
	if explained(other, all) != other || explained(nil, all) != nil {
		t.Error("another failure is exchanged")
	}
}
