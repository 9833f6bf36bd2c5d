package helm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sort"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/release"
	"helm.sh/helm/v4/pkg/release/v1"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"sigs.k8s.io/yaml"
)

// Release is what the record of a release tells, without its chart.
type Release struct {
	Name             string            `json:"name"`
	Namespace        string            `json:"namespace"`
	Version          int               `json:"version"`
	Status           string            `json:"status"`
	Description      string            `json:"description,omitempty"`
	Labels           map[string]string `json:"labels,omitempty"`
	Chart            Chart             `json:"chart"`
	ConfigDigest     string            `json:"configDigest"`
	ApplyMethod      string            `json:"applyMethod,omitempty"`
	FirstDeployed    time.Time         `json:"firstDeployed,omitzero"`
	LastDeployed     time.Time         `json:"lastDeployed,omitzero"`
	Deleted          time.Time         `json:"deleted,omitzero"`
	RollbackRevision int               `json:"rollbackRevision,omitempty"`
	Notes            string            `json:"notes,omitempty"`
	Objects          []json.RawMessage `json:"objects"`
	Hooks            []Hook            `json:"hooks"`
}

// Chart is what a release was made from.
type Chart struct {
	Name       string `json:"name"`
	Version    string `json:"version"`
	AppVersion string `json:"appVersion,omitempty"`
}

// Hook is an object of a chart that runs at some events, and how it ended last.
type Hook struct {
	Name      string    `json:"name"`
	Kind      string    `json:"kind"`
	Path      string    `json:"path"`
	Events    []string  `json:"events"`
	Phase     string    `json:"phase,omitempty"`
	Started   time.Time `json:"started,omitzero"`
	Completed time.Time `json:"completed,omitzero"`
}

// told returns nil for no release.
func told(found release.Releaser) *Release {
	r, ok := found.(*v1.Release)
	if !ok || r == nil || r.Info == nil {
		return nil
	}
	answer := &Release{
		Name: r.Name, Namespace: r.Namespace, Version: r.Version, Labels: r.Labels,
		Status: r.Info.Status.String(), Description: r.Info.Description, Notes: r.Info.Notes,
		FirstDeployed: r.Info.FirstDeployed, LastDeployed: r.Info.LastDeployed, Deleted: r.Info.Deleted,
		RollbackRevision: r.Info.RollbackRevision, ApplyMethod: r.ApplyMethod,
		ConfigDigest: digest(r.Config), Objects: objects(r.Manifest), Hooks: []Hook{},
	}
	if r.Chart != nil && r.Chart.Metadata != nil {
		answer.Chart = Chart{r.Chart.Metadata.Name, r.Chart.Metadata.Version, r.Chart.Metadata.AppVersion}
	}
	for _, h := range r.Hooks {
		hook := Hook{Name: h.Name, Kind: h.Kind, Path: h.Path, Phase: h.LastRun.Phase.String(),
			Started: h.LastRun.StartedAt, Completed: h.LastRun.CompletedAt}
		for _, event := range h.Events {
			hook.Events = append(hook.Events, event.String())
		}
		answer.Hooks = append(answer.Hooks, hook)
	}
	return answer
}

// digest names values: their JSON has its keys in order.
func digest(values map[string]any) string {
	if values == nil {
		values = map[string]any{}
	}
	written, err := json.Marshal(values)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(written)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// objects are the documents of a manifest in their order, without those that are empty.
func objects(manifest string) []json.RawMessage {
	found := []json.RawMessage{}
	documents := releaseutil.SplitManifests(manifest)
	names := make([]string, 0, len(documents))
	for name := range documents {
		names = append(names, name)
	}
	sort.Sort(releaseutil.BySplitManifestsOrder(names))
	for _, name := range names {
		object, err := yaml.YAMLToJSON([]byte(documents[name]))
		if err == nil && strings.HasPrefix(string(object), "{") {
			found = append(found, object)
		}
	}
	return found
}
