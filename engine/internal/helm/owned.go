package helm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"helm.sh/helm/v4/pkg/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Seen is an object that a watch of the parent shows as the release has applied it.
type Seen struct {
	Group           string `json:"group"`
	Kind            string `json:"kind"`
	Namespace       string `json:"namespace"`
	Name            string `json:"name"`
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion"`
}

// owned are objects that belong to the release in the version in which they were seen. Each is
// deleted in that version only. If it has changed since, the API server refuses, and it is read as
// Helm does it. So nothing is deleted by a state that is past.
type owned struct {
	seen    map[identity]*Seen
	release *Request

	began *metav1.Time // of a release that never succeeded: what is older is not its own
	ends  bool         // all objects of the release are deleted

	sync.Mutex
	paths   map[string]bool           // of all that is built, if all is deleted
	unread  []error                   // why objects to delete could not be read
	objects map[string]map[string]any // by path
	leaving map[string]bool           // by path: judged when they are read
}

type identity struct{ group, kind, namespace, name string }

func ownedBy(request *Request) *owned {
	o := &owned{seen: map[identity]*Seen{}, release: request, objects: map[string]map[string]any{}, leaving: map[string]bool{}, paths: map[string]bool{}}
	for i := range request.Options.Seen {
		each := &request.Options.Seen[i]
		o.seen[identity{each.Group, each.Kind, each.Namespace, each.Name}] = each
	}
	return o
}

// add notes where the objects of a manifest are.
func (o *owned) add(found kube.ResourceList) {
	o.Lock()
	defer o.Unlock()
	for _, each := range found {
		kind, namespace := each.Mapping.GroupVersionKind, ""
		if each.Namespaced() {
			namespace = each.Namespace
		}
		if o.ends {
			o.paths[path(each)] = true
		}
		seen := o.seen[identity{kind.Group, kind.Kind, namespace, each.Name}]
		if o.began != nil {
			// What was seen does not tell how old it is. A rollback says which objects it deletes (leave).
			if o.ends {
				o.leaving[path(each)] = true
			}
			continue
		}
		if seen == nil {
			continue
		}
		object := described(each)
		object["metadata"] = map[string]any{
			"name": each.Name, "namespace": namespace, "uid": seen.UID, "resourceVersion": seen.ResourceVersion,
			"labels":      map[string]any{managedBy: helmItself},
			"annotations": map[string]any{releaseName: o.release.Name, releaseNamespace: o.release.Namespace},
		}
		o.objects[path(each)] = object
	}
}

// deletes tells whether an object is to be deleted.
func (o *owned) deletes(path string) bool {
	o.Lock()
	defer o.Unlock()
	return o.paths[path] || o.leaving[path]
}

func (o *owned) unverified(err error) {
	o.Lock()
	defer o.Unlock()
	o.unread = append(o.unread, err)
}

// undecided returns why it is not known whose objects to delete are; nil if it is known of all.
func (o *owned) undecided() error {
	o.Lock()
	defer o.Unlock()
	return errors.Join(o.unread...)
}

func (o *owned) object(path string) map[string]any {
	o.Lock()
	defer o.Unlock()
	return o.objects[path]
}

func (o *owned) take(path string) map[string]any {
	o.Lock()
	defer o.Unlock()
	object := o.objects[path]
	delete(o.objects, path)
	return object
}

// delete deletes an object in the version in which it was seen. One that has changed is read, and is
// left alone as if it were gone when it belongs to somebody else by now.
func (o *owned) delete(inner http.RoundTripper, request *http.Request) (*http.Response, error) {
	object := o.take(request.URL.Path)
	if object == nil || request.Body == nil {
		return inner.RoundTrip(request)
	}
	defer request.Body.Close()
	written, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	exact, err := onlyAs(&unstructured.Unstructured{Object: object}, written)
	if err != nil {
		return nil, err
	}
	response, err := inner.RoundTrip(resent(request, http.MethodDelete, exact))
	if err != nil || response.StatusCode != http.StatusConflict {
		return response, err
	}
	response.Body.Close()
	if response, err = inner.RoundTrip(resent(request, http.MethodGet, nil)); err != nil || response.StatusCode != http.StatusOK {
		return response, err
	}
	defer response.Body.Close()
	var live unstructured.Unstructured
	if err := json.NewDecoder(response.Body).Decode(&live.Object); err != nil {
		return nil, fmt.Errorf("reading %s: %w", request.URL.Path, err)
	}
	if o.stays(&live) != "" {
		return answered(request, http.StatusNotFound, notFound("what is to be deleted of "+request.URL.Path))
	}
	return inner.RoundTrip(resent(request, http.MethodDelete, written))
}

// owns tells whether an object carries the marks of the release (Helm: package action, checkOwnership).
func (o *owned) owns(live *unstructured.Unstructured) bool {
	marks := live.GetAnnotations()
	return live.GetLabels()[managedBy] == helmItself &&
		marks[releaseName] == o.release.Name && marks[releaseNamespace] == o.release.Namespace
}

const (
	managedBy        = "app.kubernetes.io/managed-by"
	helmItself       = "Helm"
	releaseName      = "meta.helm.sh/release-name"
	releaseNamespace = "meta.helm.sh/release-namespace"
)

// onlyAs adds to delete options that they are for one version of an object.
func onlyAs(object *unstructured.Unstructured, written []byte) ([]byte, error) {
	var options metav1.DeleteOptions
	if err := json.Unmarshal(written, &options); err != nil {
		return nil, err
	}
	uid, version := types.UID(object.GetUID()), object.GetResourceVersion()
	options.Preconditions = &metav1.Preconditions{UID: &uid, ResourceVersion: &version}
	return json.Marshal(options)
}

func resent(request *http.Request, method string, body []byte) *http.Request {
	other := request.Clone(request.Context())
	other.Method, other.ContentLength, other.Body = method, int64(len(body)), nil
	if body != nil {
		other.Body = io.NopCloser(bytes.NewReader(body))
	} else {
		other.URL.RawQuery = ""
	}
	return other
}
