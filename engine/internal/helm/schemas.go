package helm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
)

// schemaURL is where Helm says that a schema is; references are resolved against it.
const schemaURL = "file:///values.schema.json"

// closed is one schema that is not given to Helm, and why.
type closed struct {
	stand string // the reference in the schema that stands in for it
	why   error
}

// closeSchemas keeps Helm from following references that leave a schema: it would read any file of
// this machine that the process may read, among them charts of other tenants, and ask any server. Such
// a schema is exchanged for one that cannot be compiled. So a chart fails if it is validated by it,
// and does not fail if the chart that has it is a dependency that is not enabled.
func closeSchemas(chart *chartv2.Chart) []closed {
	var all []closed
	var walk func(*chartv2.Chart)
	walk = func(c *chartv2.Chart) {
		if why := selfContained(c); why != nil {
			one := closed{fmt.Sprintf("closed:%d", len(all)), why}
			c.Schema, _ = json.Marshal(map[string]string{"$ref": one.stand})
			all = append(all, one)
		}
		for _, each := range c.Dependencies() {
			walk(each)
		}
	}
	walk(chart)
	return all
}

// explained returns why a schema is closed where Helm failed by one.
func explained(err error, all []closed) error {
	for _, each := range all {
		if err != nil && strings.Contains(err.Error(), fmt.Sprintf("%q", each.stand)) {
			return each.why
		}
	}
	return err
}

// selfContained compiles the schema of a chart as Helm does, without a way to load another one. An
// error of another kind closes the schema too: the order in which a schema is compiled varies, so
// Helm might load something before it comes to that error.
func selfContained(chart *chartv2.Chart) (err error) {
	if chart.Schema == nil {
		return nil
	}
	outside := &refusing{}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
		switch {
		case outside.url != "":
			err = fmt.Errorf("values.schema.json of chart %q refers to %q: only references within the schema "+
				"are followed; put what it refers to below $defs, or set disableSchemaValidation", chart.Name(), outside.url)
		case err != nil:
			err = fmt.Errorf("values.schema.json of chart %q cannot be used: %w", chart.Name(), err)
		}
	}()
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(chart.Schema))
	if err != nil {
		return err
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(outside)
	if err := compiler.AddResource(schemaURL, schema); err != nil {
		return err
	}
	_, err = compiler.Compile(schemaURL)
	return err
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
