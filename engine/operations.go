package main

import (
	"penstock.dev/engine/internal/call"
	"penstock.dev/engine/internal/kustomize"
	"penstock.dev/engine/internal/notation"
	"penstock.dev/engine/internal/substitute"
)

// operations is everything that this library can do.
var operations = call.Operations{
	"kustomize.build": kustomize.Build, // a tree of manifests becomes a list of objects
	"notation.verify": notation.Verify, // signatures are judged by a trust policy
	"substitute":      substitute.Run,  // variables in objects become their values
}
