package helm

import (
	"errors"
	"fmt"
	"slices"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release"
	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
)

// The operations.
var (
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
	i.SkipCRDs = o.CRDs == "Skip"
	i.CreateNamespace, i.Replace, i.ForceReplace = o.CreateNamespace, o.Replace, o.Force
	i.ForceConflicts, i.ServerSideApply = o.ForceConflicts, o.ServerSideApply != "false"
	i.TakeOwnership, i.Description, i.Labels = o.TakeOwnership, o.Description, o.Labels
	i.PostRenderer, i.PostRenderStrategy = r.postRenderer(), r.postRenderStrategy()
	return i
}

func install(r *run) (any, error) {
	chart, err := r.chart()
	if err != nil {
		return nil, err
	}
	if r.Options.CRDs == "CreateReplace" {
		return nil, errors.New("crds: CreateReplace is not supported yet")
	}
	released, err := installing(r).Run(chart, r.Values)
	return told(released), err
}

// render makes the release that an install would make, and changes nothing.
func render(r *run) (any, error) {
	chart, err := r.chart()
	if err != nil {
		return nil, err
	}
	i := installing(r)
	i.DryRunStrategy, i.TakeOwnership, i.Replace = action.DryRunServer, true, true
	if r.config.Capabilities == nil {
		if r.config.Capabilities, err = r.cluster.fill(); err != nil {
			return nil, err
		}
	}
	released, err := i.Run(chart, r.Values)
	return told(released), err
}

func upgrade(r *run) (any, error) {
	chart, err := r.chart()
	if err != nil {
		return nil, err
	}
	o := &r.Options
	u := action.NewUpgrade(r.config)
	u.Namespace, u.Timeout, u.MaxHistory = r.Namespace, r.timeout(), o.MaxHistory
	u.WaitStrategy, u.WaitOptions = kube.HookOnlyStrategy, r.waiting()
	u.DisableOpenAPIValidation = true
	u.DisableHooks, u.SkipSchemaValidation = o.DisableHooks, o.DisableSchemaValidation
	u.ForceReplace, u.ForceConflicts = o.Force, o.ForceConflicts
	u.ServerSideApply, u.ReuseValues, u.ResetValues = orAuto(o.ServerSideApply), o.ReuseValues, !o.ReuseValues
	u.TakeOwnership, u.CleanupOnFail = o.TakeOwnership, o.CleanupOnFail
	u.Description, u.Labels = o.Description, o.Labels
	u.PostRenderer, u.PostRenderStrategy = r.postRenderer(), r.postRenderStrategy()
	released, err := u.Run(r.Name, chart, r.Values)
	return told(released), err
}

func rollback(r *run) (any, error) {
	o := &r.Options
	b := action.NewRollback(r.config)
	b.Version, b.Timeout, b.MaxHistory = o.Version, r.timeout(), o.MaxHistory
	b.WaitStrategy, b.WaitOptions = kube.HookOnlyStrategy, r.waiting()
	b.DisableHooks, b.ForceReplace, b.ForceConflicts = o.DisableHooks, o.Force, o.ForceConflicts
	b.ServerSideApply, b.CleanupOnFail, b.Description = orAuto(o.ServerSideApply), o.CleanupOnFail, o.Description
	if err := b.Run(r.Name); err != nil {
		return r.lastOrNil(), err
	}
	return r.last()
}

// uninstall looks for the release first: Helm's own way to overlook a missing one overlooks every
// failure to read it.
func uninstall(r *run) (any, error) {
	if _, err := r.last(); err != nil {
		return nil, err
	}
	u := action.NewUninstall(r.config)
	u.DisableHooks, u.KeepHistory, u.Timeout = r.Options.DisableHooks, r.Options.KeepHistory, r.timeout()
	u.WaitStrategy, u.WaitOptions = kube.HookOnlyStrategy, r.waiting()
	u.DeletionPropagation = r.Options.DeletionPropagation
	if u.DeletionPropagation == "" {
		u.DeletionPropagation = "background"
	}
	response, err := u.Run(r.Name)
	if response == nil {
		return nil, err
	}
	return told(response.Release), err
}

func test(r *run) (any, error) {
	t := action.NewReleaseTesting(r.config)
	t.Namespace, t.Timeout, t.Filters, t.WaitOptions = r.Namespace, r.timeout(), r.Options.Filters, r.waiting()
	released, shutdown, err := t.Run(r.Name)
	return told(released), errors.Join(err, shutdown())
}

// unlock marks the last release as failed if an action on it was never finished.
func unlock(r *run) (any, error) {
	found, err := r.config.Releases.Last(r.Name)
	if err != nil {
		return nil, err
	}
	last, ok := found.(*releasev1.Release)
	if !ok {
		return nil, fmt.Errorf("release %s has an unknown format", r.Name)
	}
	if last.Info.Status.IsPending() {
		last.SetStatus(common.StatusFailed, "Release unlocked from stale '"+last.Info.Status.String()+"' state")
		if err := r.config.Releases.Update(last); err != nil {
			return nil, err
		}
	}
	return told(last), nil
}

// history returns every release, the newest first; none is no failure.
func history(r *run) (any, error) {
	found, err := r.config.Releases.History(r.Name)
	if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, err
	}
	releases := []*Release{}
	for _, each := range found {
		if one := told(each); one != nil {
			releases = append(releases, one)
		}
	}
	slices.SortFunc(releases, func(a, b *Release) int { return b.Version - a.Version })
	return map[string]any{"releases": releases}, nil
}

func (r *run) last() (*Release, error) {
	found, err := r.config.Releases.Last(r.Name)
	if err != nil {
		return nil, err
	}
	return told(found), nil
}

func (r *run) lastOrNil() *Release {
	last, _ := r.last()
	return last
}

func orAuto(choice string) string {
	if choice == "" {
		return "auto"
	}
	return choice
}

var _ release.Releaser = (*releasev1.Release)(nil)
