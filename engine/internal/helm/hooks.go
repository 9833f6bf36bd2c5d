package helm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"helm.sh/helm/v4/pkg/kube"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/resource"
)

// watchAgain is the pause before a watch that broke is begun again.
const watchAgain = time.Second

// GetWaiterWithOptions implements kube.InterfaceWaitOptions.
func (c *client) GetWaiterWithOptions(kube.WaitStrategy, ...kube.WaitOption) (kube.Waiter, error) {
	return hookWaiter{c.ctx}, nil
}

// hookWaiter waits for hooks alone.
//
// Helm's own looks at a hook when its watch has begun. A Job that its time to live deletes as soon as it
// is complete is gone by then, and fails the release. This one watches from the version in which the hook
// was created, so it is told of all that happened to it, and the last is how it ended.
type hookWaiter struct{ ctx context.Context }

// Wait implements kube.Waiter: the parent waits.
func (hookWaiter) Wait(kube.ResourceList, time.Duration) error { return nil }

// WaitWithJobs implements kube.Waiter.
func (hookWaiter) WaitWithJobs(kube.ResourceList, time.Duration) error { return nil }

// WaitForDelete implements kube.Waiter.
func (hookWaiter) WaitForDelete(kube.ResourceList, time.Duration) error { return nil }

// WatchUntilReady implements kube.Waiter: Jobs and Pods are to succeed, all else is ready when it is created.
func (w hookWaiter) WatchUntilReady(hooks kube.ResourceList, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(w.ctx, timeout)
	defer cancel()
	failures := make([]error, len(hooks))
	var all sync.WaitGroup
	for i, each := range hooks {
		if judge := judges[each.Mapping.GroupVersionKind.GroupKind()]; judge != nil {
			all.Go(func() { failures[i] = (&hookWatch{each, judge, hookUID(each), "Unknown", ""}).until(ctx) })
		}
	}
	all.Wait()
	return errors.Join(append(failures, ctx.Err())...)
}

// judge tells how far a hook is: its status in the words of kstatus, and a message.
type judge func(*unstructured.Unstructured) (status, message string)

const (
	current    = "Current"
	failed     = "Failed"
	inProgress = "InProgress"
)

var judges = map[schema.GroupKind]judge{
	{Group: batchv1.GroupName, Kind: "Job"}: judgeJob,
	{Group: corev1.GroupName, Kind: "Pod"}:  judgePod,
}

func judgeJob(job *unstructured.Unstructured) (string, string) {
	conditions, _, _ := unstructured.NestedSlice(job.Object, "status", "conditions")
	for _, each := range conditions {
		condition, _ := each.(map[string]any)
		if condition["status"] != string(metav1.ConditionTrue) {
			continue
		}
		switch condition["type"] {
		case string(batchv1.JobComplete):
			return current, ""
		case string(batchv1.JobFailed):
			return failed, fmt.Sprintf("Job Failed. failed: %d/%d", count(job, 0, "status", "failed"), count(job, count(job, 1, "spec", "parallelism"), "spec", "completions"))
		}
	}
	return inProgress, "Job in progress"
}

func count(object *unstructured.Unstructured, otherwise int64, path ...string) int64 {
	if found, ok, _ := unstructured.NestedInt64(object.Object, path...); ok {
		return found
	}
	return otherwise
}

func judgePod(pod *unstructured.Unstructured) (string, string) {
	switch phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase"); corev1.PodPhase(phase) {
	case corev1.PodSucceeded:
		return current, ""
	case corev1.PodFailed:
		return failed, fmt.Sprintf("pod %s failed", pod.GetName())
	}
	return inProgress, "Pod in progress"
}

// hookWatch is the wait for one hook.
type hookWatch struct {
	*resource.Info
	judge   judge
	uid     types.UID
	status  string
	message string
}

func hookUID(hook *resource.Info) types.UID {
	if object, ok := hook.Object.(*unstructured.Unstructured); ok {
		return object.GetUID()
	}
	return ""
}

// until watches until the hook ended, and returns why it is not ready.
func (h *hookWatch) until(ctx context.Context) error {
	version := h.ResourceVersion
	for {
		var over bool
		var err error
		if version, over, err = h.watched(ctx, version); over || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return h.notReady(h.status, h.message)
		case <-time.After(watchAgain):
		}
	}
}

// watched watches from a version until the hook ended or the watch did, and returns the version up to
// which it has seen the hook. Without a version it begins with the hook as it is.
func (h *hookWatch) watched(ctx context.Context, version string) (string, bool, error) {
	only := metav1.ListOptions{ResourceVersion: version, FieldSelector: fields.OneTermEqualSelector("metadata.name", h.Name).String()}
	if version == "" {
		live, err := resource.NewHelper(h.Client, h.Mapping).Get(h.Namespace, h.Name)
		if apierrors.IsNotFound(err) {
			return "", true, h.notReady("NotFound", "it was deleted before it was seen to end")
		}
		object, ok := live.(*unstructured.Unstructured)
		if err != nil || !ok {
			return "", false, refused(err)
		}
		if over, err := h.seen(watch.Modified, object); over {
			return "", true, err
		}
		only.ResourceVersion = object.GetResourceVersion()
	}
	only.Watch = true
	events, err := h.Client.Get().NamespaceIfScoped(h.Namespace, h.Namespaced()).Resource(h.Mapping.Resource.Resource).
		VersionedParams(&only, metav1.ParameterCodec).Watch(ctx)
	if err != nil {
		return only.ResourceVersion, false, refused(err)
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		object, ok := event.Object.(*unstructured.Unstructured)
		if event.Type == watch.Error || !ok {
			return "", false, nil // the version is too old
		}
		if over, err := h.seen(event.Type, object); over {
			return "", true, err
		}
		only.ResourceVersion = object.GetResourceVersion()
	}
	return only.ResourceVersion, false, nil
}

// seen tells whether the hook ended with an event. A deletion shows what it was last.
func (h *hookWatch) seen(kind watch.EventType, object *unstructured.Unstructured) (bool, error) {
	if object.GetUID() != h.uid {
		return false, nil
	}
	h.status, h.message = h.judge(object)
	switch {
	case h.status == current:
		return true, nil
	case h.status == failed:
		return true, h.notReady(failed, h.message)
	case kind == watch.Deleted:
		return true, h.notReady("NotFound", "it was deleted before it ended")
	}
	return false, nil
}

func (h *hookWatch) notReady(status, message string) error {
	return fmt.Errorf("resource %s/%s/%s not ready. status: %s, message: %s", h.Mapping.GroupVersionKind.Kind, h.Namespace, h.Name, status, message)
}

// refused returns an error that another attempt meets as well.
func refused(err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return err
	}
	return nil
}
