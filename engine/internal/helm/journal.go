package helm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"helm.sh/helm/v4/pkg/release"
	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// journal is Helm's storage that remembers which records it wrote. What it writes tells nobody the
// values of Secrets: Helm describes a failed release by its error.
//
// It lists the records of its release once: those that another client writes while the action runs
// are refused by their names.
type journal struct {
	driver.Driver
	drop    func(key string) error // Helm's driver reads a record before it deletes it
	redact  func(string, *releasev1.Release) string
	listed  bool
	attempt bool                 // the release never succeeded
	holds   func() error         // why records may not be deleted; nil if they may
	config  map[string]any       // the values of what is created; nil for those that Helm has
	defers  bool                 // a record is about to be deleted: what it says meanwhile is not written
	held    *releasev1.Release   // that was not
	records []*releasev1.Release // as listed and written
	written map[int]*releasev1.Release
}

func newJournal(secrets v1.SecretInterface, redact func(string, *releasev1.Release) string) *journal {
	drop := func(key string) error {
		err := secrets.Delete(context.Background(), key, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return driver.ErrReleaseNotFound
		}
		return err
	}
	return &journal{
		Driver: driver.NewSecrets(secrets), drop: drop, redact: redact,
		written: map[int]*releasev1.Release{},
	}
}

// Query implements driver.Queryor. An action asks for the records of one release; those of a status
// are asked for as Helm does it.
func (j *journal) Query(labels map[string]string) ([]release.Releaser, error) {
	if len(labels) != 2 || labels["owner"] != "helm" || labels["name"] == "" {
		return j.Driver.Query(labels)
	}
	if !j.listed {
		found, err := j.Driver.Query(labels)
		if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
			return nil, ofStorage(err)
		}
		for _, each := range found {
			if r, ok := each.(*releasev1.Release); ok && r != nil {
				j.records = append(j.records, r)
			}
		}
		j.listed = true
	}
	if len(j.records) == 0 {
		return nil, driver.ErrReleaseNotFound
	}
	known := make([]release.Releaser, 0, len(j.records))
	for _, each := range j.records {
		known = append(known, each)
	}
	return known, nil
}

// Create implements driver.Creator.
func (j *journal) Create(key string, rel release.Releaser) error {
	if r, ok := rel.(*releasev1.Release); ok && j.config != nil {
		r.Config = j.config
	}
	return j.write(key, rel, func() error { return j.Driver.Create(key, rel) })
}

// Update implements driver.Updator.
func (j *journal) Update(key string, rel release.Releaser) error {
	if r, ok := rel.(*releasev1.Release); ok && j.holds != nil && r.Info.Status == common.StatusUninstalled {
		if err := j.holds(); err != nil {
			r.Info.Status, r.Info.Description = common.StatusUninstalling, err.Error() // to be deleted again
		}
	}
	if r, ok := rel.(*releasev1.Release); ok && j.defers {
		j.held = r
		return nil
	}
	return j.write(key, rel, func() error { return j.Driver.Update(key, rel) })
}

// Delete implements driver.Deletor.
func (j *journal) Delete(key string) (release.Releaser, error) {
	at := j.find(key)
	if at < 0 {
		return nil, driver.ErrReleaseNotFound
	}
	r := j.records[at]
	if j.holds != nil && j.holds() != nil {
		return r, j.holds()
	}
	if err := j.drop(key); err != nil {
		return r, ofStorage(err)
	}
	j.records = slices.Delete(j.records, at, at+1)
	delete(j.written, r.Version)
	if j.held == r {
		j.held = nil
	}
	return r, nil
}

// ofStorage adds to a refusal that it is about records, which the chart does not contain.
func ofStorage(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%s%w", ofRecords, err)
	}
	return err
}

// flush writes the record that was to be deleted and is still there.
func (j *journal) flush(records *storage.Storage) {
	if held := j.held; held != nil {
		j.defers, j.held = false, nil
		_ = records.Update(held) // Helm goes on without it, and tells what failed
	}
}

func (j *journal) write(key string, rel release.Releaser, do func() error) error {
	r, ok := rel.(*releasev1.Release)
	if !ok {
		return fmt.Errorf("a release has the unknown format %T", rel)
	}
	if j.attempt && r.Info.Status == common.StatusUninstalling {
		r.Info.Description = deletingAttempt
	}
	r.Info.Description = j.redact(r.Info.Description, r)
	if err := do(); err != nil {
		return ofStorage(err)
	}
	if at := j.find(key); at >= 0 {
		j.records[at] = r
	} else {
		j.records = append(j.records, r)
	}
	j.note(r)
	return nil
}

// find returns where the record in a Secret stands, -1 if it is not known (Helm: pkg/storage).
func (j *journal) find(key string) int {
	return slices.IndexFunc(j.records, func(r *releasev1.Release) bool {
		return key == fmt.Sprintf("%s.%s.v%d", storage.HelmStorageType, r.Name, r.Version)
	})
}

// note keeps a release as it is now: Helm goes on changing it.
func (j *journal) note(r *releasev1.Release) {
	kept, info := *r, *r.Info
	kept.Info = &info
	kept.Hooks = make([]*releasev1.Hook, len(r.Hooks))
	for i, each := range r.Hooks {
		hook := *each
		kept.Hooks[i] = &hook
	}
	j.written[r.Version] = &kept
}

func (j *journal) releases() []*releasev1.Release {
	found := make([]*releasev1.Release, 0, len(j.written))
	for _, each := range j.written {
		found = append(found, each)
	}
	newestFirst(found)
	return found
}

// settle marks the newest record that the action made as failed if Helm left it pending. One that
// cannot be written stays pending in the journal as well, as it is in storage: it is to be unlocked.
func (r *run) settle(cause error) {
	for _, each := range r.journal.releases() {
		if !each.Info.Status.IsPending() {
			continue
		}
		failed, info := *each, *each.Info
		failed.Info = &info
		failed.SetStatus(common.StatusFailed, fmt.Sprintf("Release %q failed: %s", r.Name, cause))
		_ = r.config.Releases.Update(&failed) // what failed is told already
	}
}
