package main

import (
	"penstock.dev/engine/internal/age"
	"penstock.dev/engine/internal/call"
	"penstock.dev/engine/internal/helm"
	"penstock.dev/engine/internal/kustomize"
	"penstock.dev/engine/internal/notation"
	"penstock.dev/engine/internal/openpgp"
	"penstock.dev/engine/internal/substitute"
)

// operations is everything that this library can do.
var operations = call.Operations{
	"age.open":        age.Open,        // data keys are opened with post-quantum identities
	"helm.fail":       helm.Fail,       // a release whose objects did not become ready is marked as failed
	"helm.history":    helm.History,    // releases are read from their storage
	"helm.install":    helm.Install,    // a chart becomes a release
	"helm.load":       helm.Load,       // what is told of a chart is read
	"helm.render":     helm.Render,     // a chart becomes the release that an install would make
	"helm.rollback":   helm.Rollback,   // a release becomes what it was
	"helm.test":       helm.Test,       // the test hooks of a release run
	"helm.uninstall":  helm.Uninstall,  // a release and its objects are deleted
	"helm.unlock":     helm.Unlock,     // a release whose action died is marked as failed
	"helm.upgrade":    helm.Upgrade,    // a release becomes what a chart says
	"kustomize.build": kustomize.Build, // a tree of manifests becomes a list of objects
	"notation.verify": notation.Verify, // signatures are judged by a trust policy
	"openpgp.open":    openpgp.Open,    // data keys are opened with OpenPGP keys
	"substitute":      substitute.Run,  // variables in objects become their values
}
