package kustomize

import (
	"context"
	"encoding/json"
	"fmt"

	"penstock.dev/engine/internal/tree"
)

// FootprintRequest asks what mounts answer to the questions of earlier builds.
type FootprintRequest struct {
	Mounts    map[string]string `json:"mounts"`
	Questions string            `json:"questions"`
}

// Footprint is an operation: a FootprintRequest becomes a tree.Footprint. It costs a build's reading
// and nothing else of it.
func Footprint(ctx context.Context, in []byte) ([]byte, error) {
	var request FootprintRequest
	if err := json.Unmarshal(in, &request); err != nil {
		return nil, fmt.Errorf("reading the request: %w", err)
	}
	footprint, err := tree.Answer(ctx, request.Mounts, request.Questions)
	if err != nil {
		return nil, explain(err, nil)
	}
	return json.Marshal(footprint)
}
