package helm

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// leave notes objects that are to be deleted because what the release becomes does not have them.
//
// Before Helm deletes such an object it reads it, and asks only for its resource policy
// (pkg/kube/client.go, update). Whose it is by now it asks only in an uninstallation. Here both ask the
// same: another release may have taken the object over since.
func (o *owned) leave(objects kube.ResourceList) {
	o.Lock()
	defer o.Unlock()
	for _, each := range objects {
		o.leaving[path(each)] = true
	}
}

// reads tells whether an object at this path is judged when it is read.
func (o *owned) reads(path string) bool {
	o.Lock()
	defer o.Unlock()
	return o.leaving[path]
}

// read reads an object that is to be deleted. It is missing if it is to stay; otherwise it is deleted
// only in the version that was read.
func (o *owned) read(inner http.RoundTripper, request *http.Request) (*http.Response, error) {
	response, err := inner.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusOK {
		return response, err
	}
	defer response.Body.Close()
	var live unstructured.Unstructured
	if err := json.NewDecoder(response.Body).Decode(&live.Object); err != nil {
		return nil, fmt.Errorf("reading %s: %w", request.URL.Path, err)
	}
	if why := o.stays(&live); why != "" {
		slog.Warn("object is not deleted", "kind", live.GetKind(), "namespace", live.GetNamespace(), "name", live.GetName(), "why", why)
		return answered(request, http.StatusNotFound, notFound("what is to be deleted of "+request.URL.Path))
	}
	o.Lock()
	defer o.Unlock()
	o.objects[request.URL.Path] = live.Object
	return answered(request, http.StatusOK, live.Object)
}

// stays returns why an object is not deleted; empty if it is.
func (o *owned) stays(live *unstructured.Unstructured) string {
	switch {
	case !o.owns(live):
		return "it does not belong to this release by now"
	case o.existed(live):
		return "it existed before the release, which never succeeded"
	}
	return ""
}

// existed tells whether an object that the release has taken over was there before. The API server
// counts in seconds. An object of the same second is an older one if another manager made something of
// its content.
func (o *owned) existed(live *unstructured.Unstructured) bool {
	made := live.GetCreationTimestamp()
	if o.began == nil || made.After(o.began.Time) {
		return false
	}
	return made.Time.Before(o.began.Time) || slices.ContainsFunc(live.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager != o.release.Manager && entry.Subresource == "" && holdsContent(entry.FieldsV1)
	})
}

// holdsContent tells whether managed fields are more than metadata and status, which controllers add
// to objects of others.
func holdsContent(fields *metav1.FieldsV1) bool {
	var named map[string]json.RawMessage
	if fields == nil || json.Unmarshal(fields.GetRawBytes(), &named) != nil {
		return false
	}
	for name := range named {
		if name != "f:metadata" && name != "f:status" {
			return true
		}
	}
	return false
}

// beginning returns when the first of these records was written; nil if that is not known. It says
// which objects an attempt that never succeeded has found.
func (r *run) beginning(records []*releasev1.Release) (*metav1.Time, error) {
	if len(records) == 0 {
		return nil, nil
	}
	first := slices.MinFunc(records, func(a, b *releasev1.Release) int { return a.Version - b.Version })
	key := fmt.Sprintf("%s.%s.v%d", storage.HelmStorageType, first.Name, first.Version)
	limit, cancel := context.WithTimeout(r.ctx, recordTimeout)
	defer cancel()
	kept, err := r.secrets.Get(limit, key, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot tell which objects are older than the release: %w", err)
	}
	return &kept.CreationTimestamp, nil
}

// recordTimeout bounds the reading of one record.
const recordTimeout = 30 * time.Second

// keepEarlier keeps what was there before attempts that failed: all revisions after the one to which
// the release goes back, 0 for none. A release that took an object over and succeeded owns it.
func (r *run) keepEarlier(version int) error {
	records, err := r.releases()
	if err != nil {
		return err
	}
	attempts := slices.DeleteFunc(slices.Clone(records), func(each *releasev1.Release) bool { return each.Version <= version })
	if !neverSucceeded(attempts) {
		return nil
	}
	r.kube.known.owned.began, err = r.beginning(attempts)
	r.journal.attempt = true
	return err
}

// neverSucceeded tells whether none of these revisions was ever deployed as a whole. One that is being
// deleted tells by its description.
func neverSucceeded(records []*releasev1.Release) bool {
	return !slices.ContainsFunc(records, func(each *releasev1.Release) bool {
		switch each.Info.Status {
		case common.StatusDeployed, common.StatusSuperseded:
			return true
		case common.StatusUninstalling:
			return each.Info.Description != deletingAttempt
		}
		return false
	})
}

// deletingAttempt describes a release that never succeeded while it is deleted.
const deletingAttempt = "Deletion in progress of a release that never succeeded"
