package helm

import (
	"fmt"

	"helm.sh/helm/v4/pkg/release"
	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
)

// journal is Helm's storage that remembers which records it wrote. What it writes tells nobody the
// values of Secrets: Helm describes a failed release by its error.
type journal struct {
	driver.Driver
	redact  func(string, *releasev1.Release) string
	written map[int]*releasev1.Release
}

// Create implements driver.Creator.
func (j *journal) Create(key string, rel release.Releaser) error {
	return j.write(rel, func() error { return j.Driver.Create(key, rel) })
}

// Update implements driver.Updator.
func (j *journal) Update(key string, rel release.Releaser) error {
	return j.write(rel, func() error { return j.Driver.Update(key, rel) })
}

// Delete implements driver.Deletor.
func (j *journal) Delete(key string) (release.Releaser, error) {
	deleted, err := j.Driver.Delete(key)
	if r, ok := deleted.(*releasev1.Release); ok && r != nil && err == nil {
		delete(j.written, r.Version)
	}
	return deleted, err
}

func (j *journal) write(rel release.Releaser, do func() error) error {
	r, ok := rel.(*releasev1.Release)
	if !ok {
		return fmt.Errorf("a release has the unknown format %T", rel)
	}
	r.Info.Description = j.redact(r.Info.Description, r)
	if err := do(); err != nil {
		return err
	}
	j.note(r)
	return nil
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

// settle marks the newest record that the action made as failed if Helm left it pending.
func (r *run) settle(cause error) {
	for _, each := range r.journal.releases() {
		if !each.Info.Status.IsPending() {
			continue
		}
		each.SetStatus(common.StatusFailed, fmt.Sprintf("Release %q failed: %s", r.Name, cause))
		_ = r.config.Releases.Update(each) // what failed is told already
	}
}
