package kustomize

import (
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/types"

	"penstock.dev/engine/internal/call"
	"penstock.dev/engine/internal/tree"
)

// Transformations are the fields of a Kustomization's spec that change what kustomize does. Fields
// that only old API versions have are honoured too.
type Transformations struct {
	TargetNamespace         string            `json:"targetNamespace"`
	NamePrefix              string            `json:"namePrefix"`
	NameSuffix              string            `json:"nameSuffix"`
	Patches                 []patch           `json:"patches"`
	PatchesStrategicMerge   []json.RawMessage `json:"patchesStrategicMerge"`
	PatchesJSON6902         []patch6902       `json:"patchesJson6902"`
	Images                  []types.Image     `json:"images"`
	Components              []string          `json:"components"`
	IgnoreMissingComponents bool              `json:"ignoreMissingComponents"`
	BuildMetadata           []string          `json:"buildMetadata"`
}

type patch struct {
	Patch  string          `json:"patch"`
	Target *types.Selector `json:"target"`
}

type patch6902 struct {
	Patch  json.RawMessage `json:"patch"`
	Target *types.Selector `json:"target"`
}

// isIdentity tells whether nothing is to be changed.
func (x *Transformations) isIdentity() bool {
	rest := *x
	rest.IgnoreMissingComponents = false
	for _, list := range []int{
		len(rest.Patches), len(rest.PatchesStrategicMerge), len(rest.PatchesJSON6902),
		len(rest.Images), len(rest.Components), len(rest.BuildMetadata),
	} {
		if list > 0 {
			return false
		}
	}
	return rest.TargetNamespace == "" && rest.NamePrefix == "" && rest.NameSuffix == ""
}

// transform writes the transformations into the kustomization as Flux does: what the spec has
// replaces a scalar, is appended to a list, and takes the place of an image of the same name.
func (r *root) transform(t *tree.Tree, dir string, x *Transformations) error {
	k := &r.kustomization
	for _, field := range []struct {
		from string
		to   *string
	}{
		{x.TargetNamespace, &k.Namespace}, {x.NamePrefix, &k.NamePrefix}, {x.NameSuffix, &k.NameSuffix},
	} {
		if field.from != "" {
			*field.to = field.from
		}
	}
	if err := addPatches(k, x); err != nil {
		return err
	}
	for _, image := range x.Images {
		named := func(other types.Image) bool { return other.Name == image.Name }
		if i := slices.IndexFunc(k.Images, named); i >= 0 {
			k.Images[i] = image
		} else {
			k.Images = append(k.Images, image)
		}
	}
	for _, option := range x.BuildMetadata {
		if !slices.Contains(k.BuildMetadata, option) {
			k.BuildMetadata = append(k.BuildMetadata, option)
		}
	}
	return addComponents(t, dir, k, x)
}

func addPatches(k *types.Kustomization, x *Transformations) error {
	for i, p := range x.Patches {
		if err := checkInline(p.Patch); err != nil {
			return tree.Denyf("spec.patches[%d]: %v", i, err)
		}
		k.Patches = append(k.Patches, types.Patch{Patch: p.Patch, Target: p.Target})
	}
	for _, p := range x.PatchesStrategicMerge {
		k.PatchesStrategicMerge = append(k.PatchesStrategicMerge, types.PatchStrategicMerge(p))
	}
	for i, p := range x.PatchesJSON6902 {
		if p.Target == nil || reflect.ValueOf(*p.Target).IsZero() {
			return buildFailed("spec.patchesJson6902[%d]: a target is required", i)
		}
		k.PatchesJson6902 = append(k.PatchesJson6902, types.Patch{Patch: string(p.Patch), Target: p.Target})
	}
	return nil
}

func addComponents(t *tree.Tree, dir string, k *types.Kustomization, x *Transformations) error {
	for i, component := range x.Components {
		if path.IsAbs(component) || isRemote(component) {
			return buildFailed("spec.components[%d]: %q must be a relative path within the source", i, component)
		}
		if x.IgnoreMissingComponents && !t.IsDir(path.Join(dir, component)) {
			continue
		}
		k.Components = append(k.Components, component)
	}
	return nil
}

func buildFailed(format string, args ...any) error {
	return &call.Failure{Code: codeBuildFailed, Message: strings.TrimSpace(fmt.Sprintf(format, args...))}
}
