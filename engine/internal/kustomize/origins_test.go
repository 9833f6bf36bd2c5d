package kustomize

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const (
	overlay   = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
	component = "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n"
	origins   = "buildMetadata: [originAnnotations]\n"
	generator = "configMapGenerator: [{name: made, literals: [a=b]}]\n"
)

// originLayouts are trees that ask for the origins of their objects, and whether objects get them.
var originLayouts = map[string]struct {
	files map[string]string
	told  bool
}{
	"only a generator": {map[string]string{"kustomization.yaml": overlay + origins + generator}, true},
	"without a kind":   {map[string]string{"kustomization.yaml": origins + generator}, true},
	"only components": {map[string]string{
		"kustomization.yaml":   overlay + origins + "components: [c]\n",
		"c/kustomization.yaml": component + "resources: [a.yaml]\n", "c/a.yaml": application(1)["configmap"],
	}, true},
	"a generator in a component": {map[string]string{
		"kustomization.yaml": overlay + origins + "components: [c]\n", "c/kustomization.yaml": component + generator,
	}, true},
	"only resources": {map[string]string{
		"kustomization.yaml": overlay + origins + "resources: [a.yaml]\n", "a.yaml": application(1)["configmap"],
	}, true},
	"a generator below": {map[string]string{
		"kustomization.yaml": overlay + origins + "resources: [c]\n", "c/kustomization.yaml": overlay + generator,
	}, true},
	// kustomize takes the option of the uppermost kustomization for all
	"asked for below alone": {map[string]string{
		"kustomization.yaml": overlay + "resources: [c]\n", "c/kustomization.yaml": overlay + origins + generator,
	}, false},
}

func TestOriginsAreThoseOfKustomize(t *testing.T) {
	for name, layout := range originLayouts {
		dir := writeTree(t, layout.files)
		options := &krusty.Options{PluginConfig: types.DisabledPluginConfig()}
		expected, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), dir)
		if err != nil {
			t.Fatal(err)
		}

		response, err := buildDir(t.Context(), dir, ".", Transformations{})

		if err != nil || len(response.Objects) != 1 {
			t.Fatalf("%s: %v, %v", name, response, err)
		}
		var object struct {
			Metadata struct {
				Annotations map[string]string `json:"annotations"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(response.Objects[0], &object); err != nil {
			t.Fatal(err)
		}
		origin := object.Metadata.Annotations["config.kubernetes.io/origin"]
		if wanted := expected.Resources()[0].GetAnnotations()["config.kubernetes.io/origin"]; origin != wanted {
			t.Errorf("%s: %q, not %q", name, origin, wanted)
		}
		if (origin != "") != layout.told {
			t.Errorf("%s: %q", name, origin)
		}
	}
}

func TestOriginsThatASpecAsksForAreAdded(t *testing.T) {
	for name, layout := range originLayouts {
		x := Transformations{BuildMetadata: []string{"originAnnotations"}}

		response, err := buildDir(t.Context(), writeTree(t, layout.files), ".", x)

		if err != nil {
			t.Fatalf("%s: %v, %v", name, response, err)
		}
		if text := string(response.Objects[0]); !strings.Contains(text, `"config.kubernetes.io/origin"`) {
			t.Errorf("%s: %s", name, text)
		}
	}
}
