package helm

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"

	"helm.sh/helm/v4/pkg/kube"
	"k8s.io/cli-runtime/pkg/resource"
)

// known answers requests for objects of which only their existence is asked.
//
// Before Helm changes an object it asks whether it exists, to choose between creating and changing
// it (pkg/kube/client.go, update). On the server both are the same apply. So where the release before
// has the object, no request is needed for each object of an upgrade.
type known struct {
	inner http.RoundTripper
	sync.Mutex
	objects map[string]*resource.Info
}

// RoundTrip implements http.RoundTripper.
func (k *known) RoundTrip(request *http.Request) (*http.Response, error) {
	k.Lock()
	info := k.objects[request.URL.Path]
	k.Unlock()
	if info == nil || request.Method != http.MethodGet || request.URL.RawQuery != "" {
		return k.inner.RoundTrip(request)
	}
	kind := info.Mapping.GroupVersionKind
	body, err := json.Marshal(map[string]any{
		"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind,
		"metadata": map[string]string{"name": info.Name, "namespace": info.Namespace},
	})
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Request: request,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/json"}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
	}, nil
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
