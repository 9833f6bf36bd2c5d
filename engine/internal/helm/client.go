package helm

import (
	"errors"
	"io"

	"helm.sh/helm/v4/pkg/kube"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// client is Helm's, without what costs requests and gives nothing here.
type client struct {
	*kube.Client
	built    func() // called when objects are made of what was rendered
	planning bool   // nothing is applied, so kinds may be missing
	applying bool   // all that is changed was applied on the server, and is again
	known    *known
	errors   []error // of deletions; Helm tells that they failed, not why
}

// IsReachable implements kube.Interface: the next request tells.
func (*client) IsReachable() error { return nil }

// Build implements kube.Interface. The API server validates what is applied; its schemas, which the
// validation of a client needs, are megabytes.
func (c *client) Build(reader io.Reader, _ bool) (kube.ResourceList, error) {
	c.built()
	found, err := c.Client.Build(reader, false)
	if c.planning && err != nil && missesKind(err) {
		return nil, nil // what applies the objects, or asks about them, tells
	}
	return found, err
}

// Update implements kube.Interface. What an apply finds is left to the apply.
func (c *client) Update(originals, targets kube.ResourceList, options ...kube.ClientUpdateOption) (*kube.Result, error) {
	if !c.applying {
		return c.Client.Update(originals, targets, options...)
	}
	return c.known.while(targets.Intersect(originals), func() (*kube.Result, error) {
		return c.Client.Update(originals, targets, options...)
	})
}

// Delete implements kube.Interface.
func (c *client) Delete(resources kube.ResourceList, policy metav1.DeletionPropagation) (*kube.Result, []error) {
	result, found := c.Client.Delete(resources, policy)
	c.errors = append(c.errors, found...)
	return result, found
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
