// Package helm runs actions of Helm's SDK: install, upgrade, roll back, uninstall, test, and what a
// controller needs around them.
//
// An action reaches the cluster through its parent (package parent) as one of two identities: what
// the chart says is done as the release's, its history is kept as the storage's. The action ends
// when its objects are applied and its hooks have run; nothing waits for objects to become ready.
package helm

import (
	"encoding/json"
	"fmt"
	"time"

	"penstock.dev/engine/internal/kustomize"
)

// Request asks for one action.
type Request struct {
	// Cluster names the API server in its present state: what is served there is remembered by it.
	Cluster string `json:"cluster"`
	// TimeoutMs ends the action; the history may be written for a while longer.
	TimeoutMs int64 `json:"timeoutMs"`
	// RenderMs ends the process if the templates take longer.
	RenderMs int64 `json:"renderMs"`
	// Manager owns the fields that are applied.
	Manager          string         `json:"manager"`
	Name             string         `json:"name"`
	Namespace        string         `json:"namespace"`
	StorageNamespace string         `json:"storageNamespace"`
	Chart            string         `json:"chart"`
	Values           map[string]any `json:"values"`
	Options          Options        `json:"options"`
	// Secrets are texts that must not appear in a failure.
	Secrets []string `json:"secrets"`
}

// Options are those of all actions; each reads what it knows.
type Options struct {
	Version                 int                         `json:"version"` // to which to roll back, 0 is the last but one; whose history, 0 is all; which to unlock, 0 is the last
	Upgrade                 bool                        `json:"upgrade"` // render what an upgrade would make
	MaxHistory              int                         `json:"maxHistory"`
	KeepHistory             bool                        `json:"keepHistory"`
	DisableHooks            bool                        `json:"disableHooks"`
	DisableSchemaValidation bool                        `json:"disableSchemaValidation"`
	CRDs                    string                      `json:"crds"` // Skip, Create, CreateReplace
	CreateNamespace         bool                        `json:"createNamespace"`
	Replace                 bool                        `json:"replace"`
	Force                   bool                        `json:"force"` // replace objects
	ForceConflicts          bool                        `json:"forceConflicts"`
	ServerSideApply         string                      `json:"serverSideApply"` // true, false, auto
	TakeOwnership           bool                        `json:"takeOwnership"`
	CleanupOnFail           bool                        `json:"cleanupOnFail"`
	ReuseValues             bool                        `json:"reuseValues"`
	DeletionPropagation     string                      `json:"deletionPropagation"`
	Seen                    []Seen                      `json:"seen"` // what is to be deleted, as far as it was seen
	Description             string                      `json:"description"`
	Labels                  map[string]string           `json:"labels"`
	Filters                 map[string][]string         `json:"filters"` // "name" and "!name" of tests
	PostRenderStrategy      string                      `json:"postRenderStrategy"`
	PostRenderers           []kustomize.Transformations `json:"postRenderers"`
	ChartVersion            string                      `json:"chartVersion"` // instead of that of the chart
	CommonMetadata          CommonMetadata              `json:"commonMetadata"`
	Carriers                Carriers                    `json:"carriers"`
}

// CommonMetadata is added to every object of a release.
type CommonMetadata struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func decode(in []byte) (*Request, error) {
	var r Request
	if err := json.Unmarshal(in, &r); err != nil {
		return nil, fmt.Errorf("reading the request: %w", err)
	}
	if r.StorageNamespace == "" {
		r.StorageNamespace = r.Namespace
	}
	return &r, nil
}

func (r *Request) timeout() time.Duration { return time.Duration(r.TimeoutMs) * time.Millisecond }
