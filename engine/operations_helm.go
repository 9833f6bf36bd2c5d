//go:build helm

package main

import (
	"maps"

	"penstock.dev/engine/internal/call"
	"penstock.dev/engine/internal/charts"
	"penstock.dev/engine/internal/helm"
)

// Helm and its clients double the memory of a process that loads them, so they are in a library of
// their own (ADR 32).
func init() {
	maps.Copy(operations, call.Operations{
		"chart.inspect":  charts.Inspect, // a chart tells what it is and lacks
		"chart.package":  charts.Package, // a chart becomes a package
		"helm.fail":      helm.Fail,      // a release whose objects did not become ready is marked as failed
		"helm.history":   helm.History,   // releases are read from their storage
		"helm.install":   helm.Install,   // a chart becomes a release
		"helm.load":      helm.Load,      // what is told of a chart is read
		"helm.render":    helm.Render,    // a chart becomes the release that an install would make
		"helm.rollback":  helm.Rollback,  // a release becomes what it was
		"helm.test":      helm.Test,      // the test hooks of a release run
		"helm.uninstall": helm.Uninstall, // a release and its objects are deleted
		"helm.unlock":    helm.Unlock,    // a release whose action died is marked as failed
		"helm.upgrade":   helm.Upgrade,   // a release becomes what a chart says
	})
}
