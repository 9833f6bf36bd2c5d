package helm

import (
	"sync"

	"helm.sh/helm/v4/pkg/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// apart are kinds whose deletion needs none of the others, and keeps none of them from being deleted.
// Helm sends their deletions one kind after another, and waits for answers, not for objects to be gone.
var apart = map[schema.GroupKind]bool{
	{Group: "", Kind: "ConfigMap"}:                          true,
	{Group: "", Kind: "Pod"}:                                true,
	{Group: "", Kind: "ReplicationController"}:              true,
	{Group: "", Kind: "Secret"}:                             true,
	{Group: "", Kind: "Service"}:                            true,
	{Group: "", Kind: "ServiceAccount"}:                     true,
	{Group: "apps", Kind: "DaemonSet"}:                      true,
	{Group: "apps", Kind: "Deployment"}:                     true,
	{Group: "apps", Kind: "ReplicaSet"}:                     true,
	{Group: "apps", Kind: "StatefulSet"}:                    true,
	{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}: true,
	{Group: "batch", Kind: "CronJob"}:                       true,
	{Group: "batch", Kind: "Job"}:                           true,
	{Group: "networking.k8s.io", Kind: "Ingress"}:           true,
	{Group: "policy", Kind: "PodDisruptionBudget"}:          true,
}

// Delete implements kube.Interface. The order of kinds is Helm's, except among those that are apart:
// their deletions are sent together.
func (c *client) Delete(resources kube.ResourceList, policy metav1.DeletionPropagation) (*kube.Result, []error) {
	if err := c.known.owned.undecided(); err != nil {
		return nil, []error{err} // nothing is deleted before it is known that all can be
	}
	result, found := &kube.Result{}, []error{}
	for _, kinds := range steps(resources) {
		for _, each := range c.together(kinds, policy) {
			if each.result != nil {
				result.Deleted = append(result.Deleted, each.result.Deleted...)
			}
			found = append(found, each.errors...)
		}
	}
	c.errors = append(c.errors, found...)
	if len(found) > 0 {
		return nil, found
	}
	return result, nil
}

type deletion struct {
	result *kube.Result
	errors []error
}

// together deletes the objects of several kinds at the same time.
func (c *client) together(kinds []kube.ResourceList, policy metav1.DeletionPropagation) []deletion {
	done := make([]deletion, len(kinds))
	var all sync.WaitGroup
	for i, resources := range kinds {
		all.Go(func() { done[i].result, done[i].errors = c.Client.Delete(resources, policy) })
	}
	all.Wait()
	return done
}

// steps splits what Helm has sorted into kinds, and puts those that may be deleted together into one
// step. There is at least one, because Helm tells that there is nothing to delete.
func steps(resources kube.ResourceList) [][]kube.ResourceList {
	if len(resources) == 0 {
		return [][]kube.ResourceList{{resources}}
	}
	var found [][]kube.ResourceList
	var last schema.GroupKind
	for i, each := range resources {
		kind := each.Mapping.GroupVersionKind.GroupKind()
		switch {
		case i > 0 && kind == last:
			step := found[len(found)-1]
			step[len(step)-1] = append(step[len(step)-1], each)
		case i > 0 && apart[kind] && apart[last]:
			found[len(found)-1] = append(found[len(found)-1], kube.ResourceList{each})
		default:
			found = append(found, []kube.ResourceList{{each}})
		}
		last = kind
	}
	return found
}
