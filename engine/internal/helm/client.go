package helm

import (
	"context"
	"errors"
	"io"
	"slices"

	"helm.sh/helm/v4/pkg/kube"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"
)

// client is Helm's, without what costs requests and gives nothing here.
type client struct {
	*kube.Client
	ctx      context.Context
	built    func() // called when objects are made of what was rendered
	planning bool   // nothing is applied, so kinds may be missing
	applying bool   // all that is changed was applied on the server, and is again
	adopting bool   // what is installed is applied on the server, whoever has it before
	began    bool   // the manifest of an installation is built; hooks follow
	manifest kube.ResourceList
	cluster  *cluster
	past     past // nil for none
	known    *known
	errors   []error // of deletions; Helm tells that they failed, not why
}

// IsReachable implements kube.Interface: the next request tells.
func (*client) IsReachable() error { return nil }

// Build implements kube.Interface. The API server validates what is applied; its schemas, which the
// validation of a client needs, are megabytes.
func (c *client) Build(reader io.Reader, _ bool) (kube.ResourceList, error) {
	c.built()
	found, err := c.build(reader)
	c.known.owned.add(found)
	if c.adopting && !c.began {
		c.began, c.manifest = true, found
		c.known.miss(found)
	}
	if c.planning && err != nil && missesKind(err) {
		return nil, nil // what applies the objects, or asks about them, tells
	}
	if err != nil && c.known.owned.ends {
		c.errors = append(c.errors, err)
	}
	return found, err
}

// Update implements kube.Interface. What an apply finds is left to the apply.
func (c *client) Update(originals, targets kube.ResourceList, options ...kube.ClientUpdateOption) (*kube.Result, error) {
	c.known.owned.leave(originals.Difference(targets))
	update := func() (*kube.Result, error) { return c.Client.Update(originals, targets, options...) }
	result, err := (*kube.Result)(nil), error(nil)
	if c.applying {
		result, err = c.known.while(targets.Intersect(originals), update)
	} else {
		result, err = update()
	}
	return result, errors.Join(err, c.known.owned.undecided())
}

// Create implements kube.Interface. Helm looks which objects exist, creates the others, and applies
// all of them by force. An apply by force creates and takes over alike, so nothing needs to be looked
// for. The exception is what this manager has changed by updates: Helm makes these fields applied ones.
func (c *client) Create(resources kube.ResourceList, options ...kube.ClientCreateOption) (*kube.Result, error) {
	if !c.adopting || len(resources) == 0 || len(c.manifest) == 0 || resources[0] != c.manifest[0] {
		return c.Client.Create(resources, options...)
	}
	rendered := make(map[*resource.Info]runtime.Object, len(resources))
	for _, each := range resources {
		rendered[each] = each.Object.DeepCopyObject()
	}
	result, err := c.Client.Create(resources, append(options, kube.ClientCreateOptionServerSideApply(true, true))...)
	updated := resources.Filter(updatedByUs)
	if err != nil || len(updated) == 0 {
		return result, err
	}
	before := make(kube.ResourceList, 0, len(updated))
	for _, each := range updated {
		each.Object = rendered[each]
		original := *each
		before = append(before, &original)
	}
	return c.Client.Update(before, updated, kube.ClientUpdateOptionServerSideApply(true, true),
		kube.ClientUpdateOptionUpgradeClientSideFieldManager(true))
}

// updatedByUs tells whether fields of an object are managed by updates of the manager that applies.
func updatedByUs(live *resource.Info) bool {
	object, err := meta.Accessor(live.Object)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == kube.ManagedFieldsManager && entry.Subresource == "" &&
			entry.Operation == metav1.ManagedFieldsOperationUpdate
	})
}

// GetPodList implements kube.Interface: the output of hooks goes nowhere.
func (*client) GetPodList(string, metav1.ListOptions) (*corev1.PodList, error) {
	return &corev1.PodList{}, nil
}

// OutputContainerLogsForPodList implements kube.Interface.
func (*client) OutputContainerLogsForPodList(*corev1.PodList, string, func(string, string, string) io.Writer) error {
	return nil
}

// why adds to an error of Helm why deletions failed.
func (c *client) why(err error) error {
	if err == nil || len(c.errors) == 0 {
		return err
	}
	return errors.Join(append([]error{err}, c.errors...)...)
}
