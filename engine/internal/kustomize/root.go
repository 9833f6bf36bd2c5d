package kustomize

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/provider"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"

	"penstock.dev/engine/internal/tree"
)

// root is the kustomization of the directory to build.
type root struct {
	kustomization types.Kustomization
	file          string // its name in the directory
	generated     bool   // the directory has none: this one lists all manifests below it
}

// readRoot reads the kustomization of dir, or makes one up. A field that kustomize does not know is
// ignored, in this one kustomization only, as Flux does.
func readRoot(t *tree.Tree, dir string) (*root, error) {
	r := &root{kustomization: types.Kustomization{
		TypeMeta: types.TypeMeta{APIVersion: types.KustomizationVersion, Kind: types.KustomizationKind},
	}}
	files := kustomizationFiles(t, dir)
	if len(files) == 0 {
		r.file, r.generated = konfig.DefaultKustomizationFileName(), true
		return r, r.addManifests(t, dir, ".")
	}
	if len(files) > 1 {
		return nil, buildFailed("found %s in %q: only one of them can be the kustomization",
			strings.Join(files, " and "), path.Clean("."+dir))
	}
	r.file = files[0]
	data, err := t.ReadFile(path.Join(dir, r.file))
	if err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(data, &r.kustomization); err != nil {
		return nil, buildFailed("%s: %v", path.Join(dir, r.file)[1:], err)
	}
	return r, nil
}

// addManifests lists every YAML file below dir/rel; a directory with a kustomization of its own stays
// a unit. The order is that of a walk: lexical, depth first.
func (r *root) addManifests(t *tree.Tree, dir, rel string) error {
	entries, err := t.List(path.Join(dir, rel))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		below := path.Join(rel, entry.Name)
		switch {
		case entry.IsDir && len(kustomizationFiles(t, path.Join(dir, below))) > 0:
			r.addResource(below)
		case entry.IsDir:
			if err := r.addManifests(t, dir, below); err != nil {
				return err
			}
		case path.Ext(entry.Name) == ".yaml" || path.Ext(entry.Name) == ".yml":
			r.addResource(below)
		}
	}
	return nil
}

func (r *root) addResource(rel string) {
	r.kustomization.Resources = append(r.kustomization.Resources, "./"+rel)
}

// kustomizationFiles returns the names under which dir has a kustomization; kustomize allows one.
func kustomizationFiles(t *tree.Tree, dir string) []string {
	return slices.DeleteFunc(konfig.RecognizedKustomizationFileNames(), func(name string) bool {
		return !t.IsFile(path.Join(dir, name))
	})
}

// findUndecodable names the first file of a generated kustomization that holds no Kubernetes objects.
func findUndecodable(t *tree.Tree, dir string, r *root) error {
	if len(r.kustomization.Resources) == 0 {
		return buildFailed("no *.yaml or *.yml file in %q and no kustomization", path.Clean("."+dir))
	}
	for _, resource := range r.kustomization.Resources {
		name := path.Join(dir, resource)
		if t.IsDir(name) {
			continue
		}
		if err := decode(t, name); err != nil {
			return fmt.Errorf("failed to decode Kubernetes YAML from %s: %w", name[1:], err)
		}
	}
	return nil
}

func decode(t *tree.Tree, name string) error {
	data, err := t.ReadFile(name)
	if err != nil {
		return err
	}
	resources, err := provider.NewDefaultDepProvider().GetResourceFactory().SliceFromBytes(data)
	for _, resource := range resources {
		if _, err := encodeOne(resource); err != nil {
			return err
		}
	}
	return err
}
