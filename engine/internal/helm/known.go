package helm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"

	"helm.sh/helm/v4/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"
)

// known answers requests for objects of which only their existence or their owner is asked.
//
// Before Helm changes an object it asks whether it exists, to choose between creating and changing
// it (pkg/kube/client.go, update). On the server both are the same apply. So where the release before
// has the object, no request is needed for each object of an upgrade.
//
// Before Helm installs objects that it may take over, it asks which of them exist, to apply those
// another way. It is answered that none does (client.Create).
//
// Before Helm deletes an object it asks whose it is (package action, verifyOwnershipBeforeDelete).
// The owner of those that the parent has seen is known (owned). Those that an upgrade or a rollback
// deletes are judged here (leave).
type known struct {
	inner http.RoundTripper
	sync.Mutex
	objects map[string]*resource.Info
	missing map[string]bool // until they are asked for
	owned   *owned
}

// RoundTrip implements http.RoundTripper.
func (k *known) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodDelete {
		return k.owned.delete(k.inner, request)
	}
	if request.Method != http.MethodGet || request.URL.RawQuery != "" {
		return k.inner.RoundTrip(request)
	}
	info, missing := k.find(request.URL.Path)
	if missing {
		return answered(request, http.StatusNotFound, notFound(request.URL.Path))
	}
	if info != nil {
		return answered(request, http.StatusOK, described(info))
	}
	if object := k.owned.object(request.URL.Path); object != nil {
		return answered(request, http.StatusOK, object)
	}
	if k.owned.reads(request.URL.Path) {
		response, err := k.owned.read(k.inner, request)
		return k.verified(request, response, err)
	}
	response, err := k.inner.RoundTrip(request)
	return k.verified(request, response, err)
}

// verified notes why an object that is to be deleted could not be read. Helm would leave it and call the
// release uninstalled (package action, verifyOwnershipBeforeDelete) or upgraded (pkg/kube/client.go, update).
func (k *known) verified(request *http.Request, response *http.Response, err error) (*http.Response, error) {
	if err != nil || !k.owned.deletes(request.URL.Path) {
		return response, err
	}
	if response.StatusCode == http.StatusOK || response.StatusCode == http.StatusNotFound {
		return response, nil
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxStatus))
	response.Body.Close()
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	status := metav1.Status{Message: "the server answered with " + http.StatusText(response.StatusCode)}
	_ = json.Unmarshal(body, &status) // others answer, too, while a server is down
	k.owned.unverified(fmt.Errorf("%s is to be deleted and cannot be read: %w", request.URL.Path, &apierrors.StatusError{ErrStatus: status}))
	return response, nil
}

// maxStatus bounds an answer that is no object.
const maxStatus = 1 << 20

// described returns an object without what nobody asks for.
func described(info *resource.Info) map[string]any {
	kind := info.Mapping.GroupVersionKind
	return map[string]any{
		"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind,
		"metadata": map[string]any{"name": info.Name, "namespace": info.Namespace},
	}
}

func answered(request *http.Request, status int, object map[string]any) (*http.Response, error) {
	body, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Request: request,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/json"}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
	}, nil
}

func (k *known) find(path string) (info *resource.Info, missing bool) {
	k.Lock()
	defer k.Unlock()
	missing = k.missing[path]
	delete(k.missing, path)
	return k.objects[path], missing
}

// miss has each of these objects be missing when it is asked for the first time.
func (k *known) miss(objects kube.ResourceList) {
	k.Lock()
	defer k.Unlock()
	k.missing = make(map[string]bool, len(objects))
	for _, each := range objects {
		k.missing[path(each)] = true
	}
}

func notFound(what string) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Status", "status": "Failure", "message": what + " not found",
		"reason": string(metav1.StatusReasonNotFound), "code": http.StatusNotFound,
	}
}

// while takes objects for existing while do runs.
func (k *known) while(objects kube.ResourceList, do func() (*kube.Result, error)) (*kube.Result, error) {
	paths := make(map[string]*resource.Info, len(objects))
	for _, each := range objects {
		paths[path(each)] = each
	}
	k.set(paths)
	defer k.set(nil)
	return do()
}

func (k *known) set(objects map[string]*resource.Info) {
	k.Lock()
	defer k.Unlock()
	k.objects = objects
}

// path returns where an object is (Kubernetes API concepts, "Standard API terminology").
func path(info *resource.Info) string {
	kind := info.Mapping.Resource
	prefix := "/apis/" + kind.Group + "/" + kind.Version
	if kind.Group == "" {
		prefix = "/api/" + kind.Version
	}
	if info.Namespaced() {
		prefix += "/namespaces/" + info.Namespace
	}
	return prefix + "/" + kind.Resource + "/" + info.Name
}
