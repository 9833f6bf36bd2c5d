package helm

import (
	"encoding/json"
	"slices"
	"sort"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Answer is what an action did, also if it failed.
type Answer struct {
	// Records are those that it made or changed, the newest first, as Helm writes them but without
	// the chart's templates, files and values.
	Records []json.RawMessage `json:"records"`
	// Objects are those of the newest record, without hooks, and the chart's definitions.
	Objects []json.RawMessage `json:"objects"`
	// Log is the end of what Helm logged.
	Log []string `json:"log"`
	// Unchecked are the parts of schemas that the values were not validated by, in words.
	Unchecked []string `json:"unchecked"`
	// Chart is the answer to Load.
	Chart *Chart `json:"chart,omitempty"`
}

// Chart is what is told of a chart.
type Chart struct {
	Name       string         `json:"name"`
	Version    string         `json:"version"`
	AppVersion string         `json:"appVersion"`
	Values     map[string]any `json:"values"`
}

func (r *run) answer() (*Answer, error) {
	releases := r.journal.releases()
	answer := &Answer{Records: []json.RawMessage{}, Objects: []json.RawMessage{}, Log: r.log.last(), Unchecked: r.unchecked}
	for _, each := range releases {
		record, err := brief(each)
		if err != nil {
			return nil, err
		}
		answer.Records = append(answer.Records, record)
	}
	if len(releases) == 0 {
		return answer, nil
	}
	newest := releases[0]
	if r.Options.CRDs != skip && newest.Chart != nil {
		for _, definition := range newest.Chart.CRDObjects() {
			answer.Objects = r.appendObjects(answer.Objects, string(definition.File.Data), defines)
		}
	}
	answer.Objects = r.appendObjects(answer.Objects, newest.Manifest, nil)
	return answer, nil
}

// brief returns the record as it is kept, without what makes it large.
func brief(release *releasev1.Release) (json.RawMessage, error) {
	short := *release
	if release.Chart != nil {
		short.Chart = &chartv2.Chart{Metadata: release.Chart.Metadata, Templates: []*common.File{}}
	}
	return json.Marshal(&short)
}

// appendObjects appends the documents of a manifest in their order, without those that are empty, and
// without those that do not fit.
func (r *run) appendObjects(objects []json.RawMessage, manifest string, fits func(*unstructured.Unstructured) bool) []json.RawMessage {
	for _, object := range documents(manifest) {
		for _, each := range flattened(object) {
			if fits != nil && !fits(each) {
				continue
			}
			r.place(each)
			if written, err := json.Marshal(each.Object); err == nil {
				objects = append(objects, written)
			}
		}
	}
	return objects
}

// documents returns the documents of a manifest in their order, without those that are empty.
func documents(manifest string) []map[string]any {
	texts := releaseutil.SplitManifests(manifest)
	names := make([]string, 0, len(texts))
	for name := range texts {
		names = append(names, name)
	}
	sort.Sort(releaseutil.BySplitManifestsOrder(names))
	found := make([]map[string]any, 0, len(texts))
	for _, name := range names {
		var object map[string]any
		if yaml.Unmarshal([]byte(texts[name]), &object) == nil && len(object) > 0 {
			found = append(found, object)
		}
	}
	return found
}

// flattened returns the items of a list, as Helm applies them.
func flattened(object map[string]any) []*unstructured.Unstructured {
	one := &unstructured.Unstructured{Object: object}
	items, ok := object["items"].([]any)
	if !ok || !strings.HasSuffix(one.GetKind(), "List") {
		return []*unstructured.Unstructured{one}
	}
	found := []*unstructured.Unstructured{}
	for _, item := range items {
		if fields, ok := item.(map[string]any); ok {
			found = append(found, flattened(fields)...)
		}
	}
	return found
}

// place gives an object the namespace in which it is applied. A kind that is not served stays as it
// is written.
func (r *run) place(object *unstructured.Unstructured) {
	kind := object.GroupVersionKind()
	mapping, err := r.cluster.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	switch {
	case err != nil:
	case mapping.Scope.Name() != meta.RESTScopeNameNamespace:
		unstructured.RemoveNestedField(object.Object, "metadata", "namespace")
	case object.GetNamespace() == "":
		object.SetNamespace(r.Namespace)
	}
}

func newestFirst(releases []*releasev1.Release) {
	slices.SortFunc(releases, func(a, b *releasev1.Release) int { return b.Version - a.Version })
}
