package helm

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"helm.sh/helm/v4/pkg/action"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release"
	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// The operations.
var (
	Fail      = operation(fail)
	History   = operation(history)
	Install   = operation(install)
	Render    = operation(render)
	Rollback  = operation(rollback)
	Test      = operation(test)
	Uninstall = operation(uninstall)
	Unlock    = operation(unlock)
	Upgrade   = operation(upgrade)
)

func installing(r *run) *action.Install {
	o := &r.Options
	i := action.NewInstall(r.config)
	i.ReleaseName, i.Namespace, i.Timeout = r.Name, r.Namespace, r.timeout()
	i.WaitStrategy, i.WaitOptions = kube.HookOnlyStrategy, r.waiting()
	i.DisableOpenAPIValidation = true // server-side apply asks the server to be strict
	i.DisableHooks, i.SkipSchemaValidation = o.DisableHooks, o.DisableSchemaValidation
	i.SkipCRDs = true // they are there already
	i.CreateNamespace, i.Replace, i.ForceReplace = o.CreateNamespace, o.Replace, o.Force
	i.ServerSideApply = o.ServerSideApply != "false"
	i.ForceConflicts = o.ForceConflicts && i.ServerSideApply
	i.TakeOwnership, i.Description, i.Labels = o.TakeOwnership, o.Description, o.Labels
	i.PostRenderer, i.PostRenderStrategy = r.postRenderer(), r.postRenderStrategy()
	return i
}

func install(r *run) error {
	chart, err := r.prepared("install")
	if err != nil {
		return err
	}
	i := installing(r)
	r.kube.adopting = i.TakeOwnership && i.ForceConflicts && !i.ForceReplace
	if i.CreateNamespace {
		if i.CreateNamespace, err = r.lacksNamespace(); err != nil {
			return fmt.Errorf("cannot tell whether namespace '%s' exists, which is to be created if not: %w", r.Namespace, err)
		}
	}
	return r.rendered(chart, func(values map[string]any) error {
		_, err := i.Run(chart, values)
		return err
	})
}

// lacksNamespace tells whether the namespace is to be created: an account that may not create
// namespaces may still use one. Where the account may not look, creating it tells.
func (r *run) lacksNamespace() (bool, error) {
	clients, err := corev1.NewForConfig(config(&r.cluster.wire))
	if err != nil {
		return false, err
	}
	_, err = clients.Namespaces().Get(r.ctx, r.Namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return true, nil
	}
	return false, err
}

// rendered runs what validates the values, renders the chart and then applies it.
func (r *run) rendered(chart *chartv2.Chart, do func(values map[string]any) error) error {
	values, err := r.given(chart)
	if err != nil {
		return fmt.Errorf("processing the dependencies of the chart: %w", err)
	}
	stop := r.rendering()
	defer stop()
	r.kube.built = stop
	if r.Options.DisableSchemaValidation {
		return do(values)
	}
	schemas := closeSchemas(chart)
	r.unchecked = schemas.unchecked
	// Helm has validated the values when it builds the objects.
	r.kube.built = func() { stop(); schemas.restore() }
	return schemas.explained(do(values))
}

// render makes the release that an install, or an upgrade, would make, and changes nothing. Kinds that
// its definitions would bring need not be served yet.
func render(r *run) error {
	chart, err := read(r.Request)
	if err != nil {
		return err
	}
	if r.config.Capabilities, err = r.cluster.fill(); err != nil {
		return err
	}
	r.kube.planning = true
	return r.rendered(chart, func(values map[string]any) error {
		released, err := r.dryRun(chart, values)
		if made, ok := released.(*releasev1.Release); ok && err == nil {
			if r.journal.config != nil {
				made.Config = r.journal.config
			}
			r.journal.note(made)
		}
		return err
	})
}

func (r *run) dryRun(chart *chartv2.Chart, values map[string]any) (release.Releaser, error) {
	if !r.Options.Upgrade {
		i := installing(r)
		i.DryRunStrategy = action.DryRunServer
		return i.Run(chart, values)
	}
	u, err := upgrading(r)
	if err != nil {
		return nil, err
	}
	u.DryRunStrategy = action.DryRunServer
	return u.Run(r.Name, chart, values)
}

func upgrade(r *run) error {
	chart, err := r.prepared("upgrade")
	if err != nil {
		return err
	}
	u, err := upgrading(r)
	if err != nil {
		return err
	}
	records, err := r.releases()
	if err != nil {
		return err
	}
	r.kube.past = replaced(records)
	return r.rendered(chart, func(values map[string]any) error {
		_, err := u.Run(r.Name, chart, values)
		return err
	})
}

func upgrading(r *run) (*action.Upgrade, error) {
	o := &r.Options
	onServer, err := r.onServer(0)
	if err != nil {
		return nil, err
	}
	if r.kube.applying, err = r.stays(onServer); err != nil {
		return nil, err
	}
	u := action.NewUpgrade(r.config)
	u.Namespace, u.Timeout, u.MaxHistory = r.Namespace, r.timeout(), o.MaxHistory
	u.WaitStrategy, u.WaitOptions = kube.HookOnlyStrategy, r.waiting()
	u.DisableOpenAPIValidation = true
	u.DisableHooks, u.SkipSchemaValidation = o.DisableHooks, o.DisableSchemaValidation
	u.ServerSideApply, u.ForceReplace, u.ForceConflicts = fmt.Sprint(onServer), o.Force, r.forces(onServer)
	u.ReuseValues, u.ResetValues = o.ReuseValues, !o.ReuseValues
	u.TakeOwnership, u.CleanupOnFail = o.TakeOwnership, o.CleanupOnFail
	u.Description, u.Labels = o.Description, o.Labels
	u.PostRenderer, u.PostRenderStrategy = r.postRenderer(), r.postRenderStrategy()
	return u, nil
}

// onServer tells whether objects are applied on the server: as the request says, or as those of a
// release were. Helm refuses to be told of conflicts where there are none. Objects that are replaced
// are not applied.
func (r *run) onServer(version int) (bool, error) {
	if r.Options.Force {
		return false, nil
	}
	if choice := r.Options.ServerSideApply; choice == "true" || choice == "false" {
		return choice == "true", nil
	}
	found, err := r.version(version)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return true, nil // the action tells
	}
	if err != nil {
		return false, err
	}
	return found.ApplyMethod == string(releasev1.ApplyMethodServerSideApply), nil
}

// stays tells whether objects that were always applied on the server are again. What a client has
// applied is read by Helm, which changes who manages its fields.
func (r *run) stays(onServer bool) (bool, error) {
	releases, err := r.releases()
	for _, each := range releases {
		if each.ApplyMethod != string(releasev1.ApplyMethodServerSideApply) {
			return false, err
		}
	}
	return onServer, err
}

func (r *run) forces(onServer bool) bool {
	return r.Options.ForceConflicts && onServer
}

func rollback(r *run) error {
	o := &r.Options
	last, err := r.last()
	if err != nil {
		return err
	}
	to := cmp.Or(o.Version, last.Version-1)
	onServer, err := r.onServer(to)
	if err != nil {
		return err
	}
	if r.kube.applying, err = r.stays(onServer); err != nil {
		return err
	}
	if err := r.keepEarlier(to); err != nil {
		return err
	}
	r.kube.past = rolledBack()
	b := action.NewRollback(r.config)
	b.Version, b.Timeout, b.MaxHistory = to, r.timeout(), o.MaxHistory
	b.WaitStrategy, b.WaitOptions = kube.HookOnlyStrategy, r.waiting()
	b.DisableHooks, b.CleanupOnFail, b.Description = o.DisableHooks, o.CleanupOnFail, o.Description
	b.ServerSideApply, b.ForceReplace, b.ForceConflicts = fmt.Sprint(onServer), o.Force, r.forces(onServer)
	return b.Run(r.Name)
}

// uninstall looks for the release first: Helm's own way to overlook a missing one overlooks every
// failure to read it.
//
// Helm writes the record before it deletes objects and deletes it afterwards. Where nothing comes in
// between that lasts, it is written only if a deletion fails.
func uninstall(r *run) error {
	last, err := r.last()
	if err != nil {
		return err
	}
	if err := r.keepEarlier(0); err != nil {
		return err
	}
	r.kube.known.owned.ends, r.journal.holds = true, r.kube.known.owned.undecided
	r.journal.defers = !r.Options.KeepHistory && (r.Options.DisableHooks || !hooksOnDelete(last))
	defer r.journal.flush(r.config.Releases)
	r.kube.past = deleted(last)
	u := action.NewUninstall(r.config)
	u.DisableHooks, u.KeepHistory, u.Timeout = r.Options.DisableHooks, r.Options.KeepHistory, r.timeout()
	u.WaitStrategy, u.WaitOptions = kube.HookOnlyStrategy, r.waiting()
	u.DeletionPropagation = r.Options.DeletionPropagation
	if u.DeletionPropagation == "" {
		u.DeletionPropagation = "background"
	}
	response, err := u.Run(r.Name)
	if response != nil {
		if gone, ok := response.Release.(*releasev1.Release); ok {
			r.journal.note(gone)
		}
	}
	if undecided := r.kube.known.owned.undecided(); undecided != nil {
		return errors.Join(cmp.Or(err, fmt.Errorf("failed to delete release: %s", r.Name)), undecided)
	}
	return r.kube.why(err)
}

func hooksOnDelete(of *releasev1.Release) bool {
	return slices.ContainsFunc(of.Hooks, func(hook *releasev1.Hook) bool {
		return slices.ContainsFunc(hook.Events, func(event releasev1.HookEvent) bool {
			return event == releasev1.HookPreDelete || event == releasev1.HookPostDelete
		})
	})
}

func test(r *run) error {
	t := action.NewReleaseTesting(r.config)
	t.Namespace, t.Timeout, t.Filters, t.WaitOptions = r.Namespace, r.timeout(), r.Options.Filters, r.waiting()
	_, shutdown, err := t.Run(r.Name)
	if after := shutdown(); err == nil {
		return after
	}
	return err // a failed test is told by both
}

// unlock marks the last release as failed if an action on it was never finished, and if it has the
// version that the request names.
func unlock(r *run) error {
	last, err := r.last()
	if err != nil {
		return err
	}
	if !last.Info.Status.IsPending() || r.Options.Version != 0 && r.Options.Version != last.Version {
		r.journal.note(last)
		return nil
	}
	last.SetStatus(common.StatusFailed, "Release unlocked from stale '"+last.Info.Status.String()+"' state")
	return r.config.Releases.Update(last)
}

// fail marks the last release as failed because its objects did not become ready. Where Helm itself
// waits for them, the release before is still the deployed one then.
func fail(r *run) error {
	releases, err := r.releases()
	if err != nil {
		return err
	}
	if len(releases) == 0 {
		return driver.ErrReleaseNotFound
	}
	last := releases[0]
	if last.Info.Status != common.StatusDeployed {
		return fmt.Errorf("revision %d of release %q is %s, not deployed", last.Version, r.Name, last.Info.Status)
	}
	last.SetStatus(common.StatusFailed, r.Options.Description)
	if err := r.config.Releases.Update(last); err != nil {
		return err
	}
	for _, before := range releases[1:] {
		if before.Info.Status == common.StatusSuperseded && before.Info.Deleted.IsZero() {
			before.Info.Status = common.StatusDeployed
			return r.config.Releases.Update(before)
		}
	}
	return nil
}

// history returns every release, or the one with the version that is asked for; none is not a failure.
func history(r *run) error {
	releases, err := r.releases()
	for _, each := range releases {
		if r.Options.Version == 0 || r.Options.Version == each.Version {
			r.journal.note(each)
		}
	}
	return err
}

// releases returns every release, the newest first.
func (r *run) releases() ([]*releasev1.Release, error) {
	found, err := r.config.Releases.History(r.Name)
	if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, err
	}
	releases := []*releasev1.Release{}
	for _, each := range found {
		if one, ok := each.(*releasev1.Release); ok && one != nil && one.Info != nil {
			releases = append(releases, one)
		}
	}
	newestFirst(releases)
	return releases, nil
}

func (r *run) last() (*releasev1.Release, error) { return r.version(0) }

// version returns one release; 0 is the last.
func (r *run) version(version int) (*releasev1.Release, error) {
	releases, err := r.releases()
	for _, each := range releases {
		if version == 0 || each.Version == version {
			return each, nil
		}
	}
	if err == nil {
		err = driver.ErrReleaseNotFound
	}
	return nil, err
}
