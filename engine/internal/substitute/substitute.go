// Package substitute replaces ${variables} in objects.
package substitute

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/fluxcd/pkg/envsubst"
	"sigs.k8s.io/yaml"

	"penstock.dev/engine/internal/call"
)

// Request asks for one substitution.
type Request struct {
	Objects   []json.RawMessage `json:"objects"`
	Variables map[string]string `json:"variables"`
	// Strict makes a variable without value and default an error; else it is empty.
	Strict bool `json:"strict"`
}

// Response has the objects in the order of the request.
type Response struct {
	Objects []json.RawMessage `json:"objects"`
}

// Run is an operation: a Request becomes a Response. The detail of a failure is, as "index", the
// number of the object on which it failed.
func Run(ctx context.Context, in []byte) ([]byte, error) {
	var request Request
	if err := json.Unmarshal(in, &request); err != nil {
		return nil, fmt.Errorf("reading the request: %w", err)
	}
	response := Response{Objects: make([]json.RawMessage, len(request.Objects))}
	for i, object := range request.Objects {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		replaced, err := replace(object, request.lookup)
		if err != nil {
			failure := &call.Failure{Code: "SubstitutionFailed", Message: err.Error()}
			failure.Detail, _ = json.Marshal(map[string]int{"index": i})
			return nil, failure
		}
		response.Objects[i] = replaced
	}
	return json.Marshal(response)
}

// TextRequest asks for the substitution of a text, whatever it is.
type TextRequest struct {
	Text      string            `json:"text"`
	Variables map[string]string `json:"variables"`
	Strict    bool              `json:"strict"`
}

// TextResponse has the text.
type TextResponse struct {
	Text string `json:"text"`
}

// RunText is an operation: a TextRequest becomes a TextResponse, line by line, as with the command
// flux envsubst. The detail of a failure is, as "line", the number of the line from 1.
func RunText(ctx context.Context, in []byte) ([]byte, error) {
	var request TextRequest
	if err := json.Unmarshal(in, &request); err != nil {
		return nil, fmt.Errorf("reading the request: %w", err)
	}
	variables := Request{Variables: request.Variables, Strict: request.Strict}
	lines := strings.Split(request.Text, "\n")
	for i, line := range lines {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		replaced, err := envsubst.Eval(line, variables.lookup)
		if err != nil {
			failure := &call.Failure{Code: "SubstitutionFailed", Message: err.Error()}
			failure.Detail, _ = json.Marshal(map[string]int{"line": i + 1})
			return nil, failure
		}
		lines[i] = replaced
	}
	return json.Marshal(TextResponse{Text: strings.Join(lines, "\n")})
}

func (r *Request) lookup(name string) (string, bool) {
	value, ok := r.Variables[name]
	return value, ok || !r.Strict
}

// replace works on the YAML text of the object, as Flux does (fluxcd/pkg kustomize_varsub.go): what
// stands in the text afterwards decides on types, so "${n}" can become a number.
func replace(object json.RawMessage, lookup func(string) (string, bool)) (json.RawMessage, error) {
	if bytes.IndexByte(object, '$') < 0 {
		return object, nil
	}
	text, err := yaml.JSONToYAML(object)
	if err != nil {
		return nil, err
	}
	output, err := envsubst.Eval(string(text), lookup)
	if err != nil {
		return nil, fmt.Errorf("variable substitution failed: %w", err)
	}
	replaced, err := yaml.YAMLToJSON([]byte(output))
	if err != nil {
		return nil, fmt.Errorf("not YAML any more after variable substitution: %w", err)
	}
	if !bytes.HasPrefix(replaced, []byte("{")) {
		return nil, fmt.Errorf("not an object any more after variable substitution")
	}
	return replaced, nil
}
