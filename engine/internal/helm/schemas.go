package helm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
)

// schemaURL is where Helm says that a schema is; references are resolved against it.
const schemaURL = "file:///values.schema.json"

// unread stands in for a reference to another host: Helm takes the name for a schema that allows
// everything.
const unread = "urn:penstock:unread"

// maxHosts bounds the documents on other hosts that a schema refers to: it is compiled once for each.
const maxHosts = 64

// maxTold bounds what is told of them.
const maxTold = 5

// closed is one schema that is not given to Helm, and why.
type closed struct {
	stand string // the reference in the schema that stands in for it
	why   error
}

// schemas are what became of those of a chart and its dependencies.
type schemas struct {
	closed    []closed
	unchecked []string // what Helm does not check, in words
	written   map[*chartv2.Chart][]byte
}

// closeSchemas keeps Helm from following references that leave a schema: it would read any file of
// this machine that the process may read, among them charts of other tenants, and ask any server. A
// reference to a web server allows everything, and all else is checked. A schema with another one is
// exchanged for one that cannot be compiled. So a chart fails if it is validated by it, and does not
// fail if the chart that has it is a dependency that is not enabled.
func closeSchemas(chart *chartv2.Chart) *schemas {
	all := &schemas{written: map[*chartv2.Chart][]byte{}}
	var walk func(*chartv2.Chart)
	walk = func(c *chartv2.Chart) {
		all.close(c)
		for _, each := range c.Dependencies() {
			walk(each)
		}
	}
	walk(chart)
	return all
}

func (s *schemas) close(chart *chartv2.Chart) {
	if chart.Schema == nil {
		return
	}
	schema, hosts, err := selfContained(chart)
	switch {
	case err != nil:
		one := closed{fmt.Sprintf("closed:%d", len(s.closed)), err}
		schema, _ = json.Marshal(map[string]string{"$ref": one.stand})
		s.closed = append(s.closed, one)
	case len(hosts) == 0:
		return
	}
	s.written[chart], chart.Schema = chart.Schema, schema
	slices.Sort(hosts) // they were found in any order
	for i, host := range hosts {
		if i == maxTold {
			s.unchecked = append(s.unchecked, fmt.Sprintf("and %d more of chart %q", len(hosts)-i, chart.Name()))
			break
		}
		s.unchecked = append(s.unchecked, fmt.Sprintf("values.schema.json of chart %q refers to %q", chart.Name(), shown(host)))
	}
}

// restore gives the charts their own schemas, which the record of the release has.
func (s *schemas) restore() {
	for chart, schema := range s.written {
		chart.Schema = schema
	}
}

// shown returns an address without what may be secret in it.
func shown(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return "an address that cannot be read"
	}
	return (&url.URL{Scheme: parsed.Scheme, Host: parsed.Host, Path: parsed.Path}).String()
}

// explained returns why a schema is closed where Helm failed by one.
func (s *schemas) explained(err error) error {
	for _, each := range s.closed {
		if err != nil && strings.Contains(err.Error(), fmt.Sprintf("%q", each.stand)) {
			return each.why
		}
	}
	return err
}

// selfContained returns the schema of a chart with references to other hosts cut, and these hosts'
// documents. It compiles it as Helm does, without a way to load another one. An error of another kind
// closes the schema: the order in which a schema is compiled varies, so Helm might load something
// before it comes to that error.
func selfContained(chart *chartv2.Chart) (cut []byte, hosts []string, err error) {
	outside := ""
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
		switch {
		case err == nil:
		case outside != "":
			err = fmt.Errorf("values.schema.json of chart %q refers to %q: only references within the schema "+
				"and to web servers are possible; put what it refers to below $defs, or set disableSchemaValidation",
				chart.Name(), shown(outside))
		default:
			err = fmt.Errorf("values.schema.json of chart %q cannot be used: %w", chart.Name(), err)
		}
	}()
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(chart.Schema))
	if err != nil {
		return nil, nil, err
	}
	for {
		if outside, err = compiled(schema); outside == "" {
			break
		}
		if !strings.HasPrefix(outside, "http://") && !strings.HasPrefix(outside, "https://") || len(hosts) == maxHosts {
			return nil, nil, err
		}
		hosts = append(hosts, outside)
		if !(&cutter{outside}).cut(schema, schemaURL) {
			schema = true // no reference leads there, so the dialect that it is written in does
		}
	}
	if err != nil || len(hosts) == 0 {
		return chart.Schema, hosts, err
	}
	cut, err = json.Marshal(schema)
	return cut, hosts, err
}

// compiled compiles a schema, and returns the first document outside it that it needs.
func compiled(schema any) (string, error) {
	outside := &refusing{}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(outside)
	if err := compiler.AddResource(schemaURL, schema); err != nil {
		return outside.url, err
	}
	_, err := compiler.Compile(schemaURL)
	return outside.url, err
}

// cutter exchanges the references to one document.
type cutter struct{ document string }

// data are keywords whose content is no schema.
var data = map[string]bool{"const": true, "default": true, "enum": true, "examples": true}

// named are keywords whose content is schemas by a name, which may be that of a keyword.
var named = map[string]bool{
	"$defs": true, "definitions": true, "dependencies": true, "dependentSchemas": true,
	"patternProperties": true, "properties": true,
}

// cut exchanges the references below a schema, and tells whether there was one.
func (c *cutter) cut(schema any, base string) bool {
	found := false
	switch node := schema.(type) {
	case []any:
		for _, each := range node {
			found = c.cut(each, base) || found
		}
	case map[string]any:
		base = resolved(base, node["id"])
		base = resolved(base, node["$id"])
		for keyword, value := range node {
			found = c.keyword(node, keyword, value, base) || found
		}
	}
	return found
}

func (c *cutter) keyword(node map[string]any, keyword string, value any, base string) bool {
	switch {
	case keyword == "$ref" || keyword == "$dynamicRef" || keyword == "$recursiveRef":
		document, _, _ := strings.Cut(resolved(base, value), "#")
		if _, ok := value.(string); !ok || document != c.document {
			return false
		}
		node[keyword] = unread
		return true
	case data[keyword]:
		return false
	case named[keyword]:
		found := false
		if schemas, ok := value.(map[string]any); ok {
			for _, each := range schemas {
				found = c.cut(each, base) || found
			}
		}
		return found
	default:
		return c.cut(value, base)
	}
}

// resolved returns a reference against a base; the base where it is none.
func resolved(base string, reference any) string {
	text, ok := reference.(string)
	if !ok {
		return base
	}
	from, err := url.Parse(base)
	if err != nil {
		return base
	}
	to, err := from.Parse(text)
	if err != nil {
		return base
	}
	return to.String()
}

// refusing loads nothing, and keeps the first address that it was asked for.
type refusing struct{ url string }

// Load implements jsonschema.URLLoader.
func (r *refusing) Load(url string) (any, error) {
	if strings.HasPrefix(url, "urn:") {
		return true, nil // a name, not an address: Helm takes it for a schema that allows everything
	}
	if r.url == "" {
		r.url = url
	}
	return nil, errors.New("not loaded")
}
