package main

import (
	"penstock.dev/engine/internal/age"
	"penstock.dev/engine/internal/call"
	"penstock.dev/engine/internal/cel"
	"penstock.dev/engine/internal/images"
	"penstock.dev/engine/internal/kustomize"
	"penstock.dev/engine/internal/notation"
	"penstock.dev/engine/internal/openpgp"
	"penstock.dev/engine/internal/substitute"
)

// operations is everything that this library can do. With the build tag helm it has more, see
// operations_helm.go.
var operations = call.Operations{
	"age.open":            age.Open,            // data keys are opened with post-quantum identities
	"cel.check":           cel.Check,           // expressions are refused, or may be evaluated
	"cel.evaluate":        cel.Evaluate,        // expressions get values, within one budget
	"images.message":      images.Message,      // changes become the message of a commit
	"images.set":          images.Set,          // files get the images that policies chose
	"kustomize.build":     kustomize.Build,     // a tree of manifests becomes a list of objects
	"kustomize.footprint": kustomize.Footprint, // questions about a tree become a digest of answers
	"notation.verify":     notation.Verify,     // signatures are judged by a trust policy
	"openpgp.open":        openpgp.Open,        // data keys are opened with OpenPGP keys
	"substitute":          substitute.Run,      // variables in objects become their values
	"substitute.text":     substitute.RunText,  // variables in a text become their values
}
