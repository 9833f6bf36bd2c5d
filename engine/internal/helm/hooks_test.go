package helm

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/resource"
)

func job(uid string, conditions ...any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "migrate", "namespace": "team", "uid": uid},
		"status":   map[string]any{"conditions": conditions, "failed": int64(2)},
	}}
}

func condition(kind, status string) any { return map[string]any{"type": kind, "status": status} }

func TestAHookEndsAsItWasSeenLast(t *testing.T) {
	complete, broken := condition("Complete", "True"), condition("Failed", "True")
	for name, c := range map[string]struct {
		kind  watch.EventType
		job   *unstructured.Unstructured
		over  bool
		fails string
	}{
		"running":                    {watch.Modified, job("1"), false, ""},
		"complete":                   {watch.Modified, job("1", complete), true, ""},
		"complete and deleted":       {watch.Deleted, job("1", complete), true, ""},
		"not complete":               {watch.Modified, job("1", condition("Complete", "False")), false, ""},
		"failed":                     {watch.Modified, job("1", broken), true, "status: Failed, message: Job Failed. failed: 2/1"},
		"failed and deleted":         {watch.Deleted, job("1", broken), true, "status: Failed"},
		"deleted while it ran":       {watch.Deleted, job("1"), true, "status: NotFound"},
		"another of the same name":   {watch.Added, job("2", complete), false, ""},
		"its end, of the other name": {watch.Deleted, job("2"), false, ""},
	} {
		mapping := &meta.RESTMapping{GroupVersionKind: schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}}
		info := &resource.Info{Name: "migrate", Namespace: "team", Mapping: mapping}
		h := &hookWatch{info, judgeJob, "1", "", ""}
		over, err := h.seen(c.kind, c.job)
		if over != c.over || (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: over %v, %v", name, over, err)
		}
	}
}
