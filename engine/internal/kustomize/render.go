package kustomize

import (
	"bytes"
	"context"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"penstock.dev/engine/internal/tree"
)

// Render applies transformations to manifests, in a tree that holds nothing else. The order of the
// manifests stays.
func Render(ctx context.Context, manifests []byte, x Transformations) ([]byte, error) {
	building.Lock()
	defer building.Unlock()
	isolate()
	files := map[string][]byte{"kustomization.yaml": []byte("resources: [manifests.yaml]"), "manifests.yaml": manifests}
	t, err := tree.Open(ctx, nil, files, tree.DefaultLimits)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	g := &gate{tree: t, objects: map[string]int{}}
	t.SetCheck(g.check)
	root, err := readRoot(t, "/")
	if err == nil {
		var text []byte
		if text, err = rendered(t, root, &x); err == nil {
			return text, nil
		}
	}
	if t.Denial() != nil {
		err = t.Denial()
	}
	return nil, explain(err, nil)
}

func rendered(t *tree.Tree, root *root, x *Transformations) ([]byte, error) {
	resources, err := customized(t, "/", root, x)
	if err != nil {
		return nil, err
	}
	if err := checkCount(len(resources)); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	for _, each := range resources {
		written, err := yaml.Marshal(each.YNode())
		if err != nil {
			return nil, err
		}
		text.WriteString("---\n")
		text.Write(written)
	}
	return text.Bytes(), nil
}
