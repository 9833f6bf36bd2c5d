package cel

import (
	"context"
	"encoding/json"
	"fmt"
)

// CheckRequest asks whether expressions can be evaluated.
type CheckRequest struct {
	Expressions []Expression `json:"expressions"`
	// ProcessorMs ends the process when the request has used so much processor time.
	ProcessorMs int64 `json:"processorMs"`
}

// CheckResponse has, for each expression, why it is invalid; empty if it is valid.
type CheckResponse struct {
	Problems []string `json:"problems"`
	// Seconds of processor time that the request used.
	Seconds float64 `json:"seconds"`
}

// Check is an operation: a CheckRequest becomes a CheckResponse.
func Check(ctx context.Context, in []byte) ([]byte, error) {
	var request CheckRequest
	if err := json.Unmarshal(in, &request); err != nil {
		return nil, fmt.Errorf("reading the request: %w", err)
	}
	seconds, end, err := begin(request.ProcessorMs)
	if err != nil {
		return nil, err
	}
	defer end()
	response := CheckResponse{Problems: make([]string, len(request.Expressions))}
	for i, expression := range request.Expressions {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if _, err := known.of(expression); err != nil {
			response.Problems[i] = err.Error()
		}
	}
	response.Seconds = seconds()
	return json.Marshal(response)
}
