package kustomize

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/resid"
)

type object struct {
	Kind     string
	Metadata struct {
		Name, Namespace     string
		Labels, Annotations map[string]string
	}
	Spec struct {
		Type     string
		Replicas int
		Template struct {
			Spec struct {
				ServiceAccountName string
				Containers         []struct{ Name, Image string }
			}
		}
	}
}

func objects(t *testing.T, response *Response) map[string]object {
	t.Helper()
	byKind := map[string]object{}
	for _, raw := range response.Objects {
		var o object
		if err := json.Unmarshal(raw, &o); err != nil {
			t.Fatal(err)
		}
		byKind[o.Kind] = o
	}
	return byKind
}

func mustBuild(t *testing.T, request Request) *Response {
	t.Helper()
	response, err := buildRequest(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

func applicationTree(t *testing.T, more map[string]string) string {
	files := map[string]string{}
	for kind, text := range application(1) {
		files[kind+".yaml"] = text
	}
	for name, text := range more {
		files[name] = text
	}
	return writeTree(t, files)
}

func TestFieldsOfTheSpecChangeAGeneratedKustomization(t *testing.T) {
	dir := applicationTree(t, map[string]string{
		"extra/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches: [{patch: '[{\"op\": \"add\", \"path\": \"/spec/type\", \"value\": \"NodePort\"}]', target: {kind: Service}}]",
	})
	x := Transformations{
		TargetNamespace: "web", NamePrefix: "p-", NameSuffix: "-s", Components: []string{"./extra"},
		Patches: []patch{
			{Patch: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: app-1}\nspec: {replicas: 7}"},
			{Patch: `[{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]`, Target: &types.Selector{ResId: resid.ResId{Gvk: resid.Gvk{Kind: "ServiceAccount"}}}},
		},
		PatchesStrategicMerge: []json.RawMessage{json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"app-1","annotations":{"c":"d"}}}`)},
		PatchesJSON6902:       []patch6902{{Patch: json.RawMessage(`[{"op":"add","path":"/metadata/annotations","value":{"e":"f"}}]`), Target: &types.Selector{ResId: resid.ResId{Gvk: resid.Gvk{Version: "v1", Kind: "Service"}, Name: "app-1"}}}},
		Images:                []types.Image{{Name: "registry.example.com/app", NewTag: "2"}},
	}
	// A component must not be found by the walk too.
	dirs := map[string]string{"": dir}
	files := map[string][]byte{"kustomization.yaml": []byte("resources: [serviceaccount.yaml, configmap.yaml, service.yaml, deployment.yaml]")}

	got := objects(t, mustBuild(t, Request{Mounts: dirs, Path: ".", Files: files, Transformations: x}))

	deployment := got["Deployment"]
	if m := deployment.Metadata; m.Name != "p-app-1-s" || m.Namespace != "web" {
		t.Errorf("metadata %+v", m)
	}
	if spec := deployment.Spec; spec.Replicas != 7 || spec.Template.Spec.ServiceAccountName != "p-app-1-s" {
		t.Errorf("spec %+v", spec)
	}
	if image := deployment.Spec.Template.Spec.Containers[0].Image; image != "registry.example.com/app:2" {
		t.Errorf("image %s", image)
	}
	if got["ServiceAccount"].Metadata.Labels["a"] != "b" || got["ConfigMap"].Metadata.Annotations["c"] != "d" ||
		got["Service"].Metadata.Annotations["e"] != "f" || got["Service"].Spec.Type != "NodePort" {
		t.Errorf("patches: %+v", got)
	}
}

func TestTheSpecWinsOverTheKustomization(t *testing.T) {
	dir := applicationTree(t, map[string]string{"kustomization.yaml": `
resources: [deployment.yaml]
namespace: theirs
namePrefix: theirs-
images: [{name: registry.example.com/app, newTag: theirs}, {name: other, newTag: kept}]
`})
	x := Transformations{TargetNamespace: "ours", Images: []types.Image{{Name: "registry.example.com/app", Digest: "sha256:0"}}}

	deployment := objects(t, mustBuild(t, Request{Mounts: map[string]string{"": dir}, Transformations: x}))["Deployment"]

	if m := deployment.Metadata; m.Namespace != "ours" || m.Name != "theirs-app-1" {
		t.Errorf("metadata %+v", m)
	}
	if image := deployment.Spec.Template.Spec.Containers[0].Image; image != "registry.example.com/app@sha256:0" {
		t.Errorf("image %s", image)
	}
}

func TestMissingComponentsCanBeIgnored(t *testing.T) {
	dir := applicationTree(t, nil)
	x := Transformations{Components: []string{"../absent"}}

	_, err := buildDir(t.Context(), dir, ".", x)
	wantFailure(t, err, codeBuildFailed, "absent")

	x.IgnoreMissingComponents = true
	if response, err := buildDir(t.Context(), dir, ".", x); err != nil || len(response.Objects) != 4 {
		t.Errorf("%v, %v", response, err)
	}
}

func TestComponentsMustBeRelative(t *testing.T) {
	for _, component := range []string{"/etc", "https://example.com/x/y"} {
		_, err := buildDir(t.Context(), applicationTree(t, nil), ".", Transformations{Components: []string{component}})
		wantFailure(t, err, codeBuildFailed, "spec.components[0]", component)
	}
}

func TestBuildMetadataIsKept(t *testing.T) {
	dir := applicationTree(t, nil)

	response, err := buildDir(t.Context(), dir, ".", Transformations{BuildMetadata: []string{"originAnnotations"}})

	if err != nil || !strings.Contains(string(response.Objects[0]), "path: configmap.yaml") {
		t.Errorf("%s, %v", response.Objects, err)
	}
}

func TestAMissingPathIsNotFound(t *testing.T) {
	_, err := buildDir(t.Context(), applicationTree(t, nil), "./apps/../none", Transformations{})

	wantFailure(t, err, codePathNotFound, "kustomization path not found", `"none"`)
}

func TestAPathStopsAtTheRoot(t *testing.T) {
	response, err := buildDir(t.Context(), applicationTree(t, nil), "../../..", Transformations{})

	if err != nil || len(response.Objects) != 4 {
		t.Errorf("%v, %v", response, err)
	}
}

func TestSeveralSourcesAreOneTree(t *testing.T) {
	app := writeTree(t, map[string]string{"kustomization.yaml": "namePrefix: x-\nresources: [../../vendor/base, own.yaml]", "own.yaml": application(1)["configmap"]})
	base := writeTree(t, map[string]string{"base/kustomization.yaml": "resources: [s.yaml]", "base/s.yaml": application(1)["service"]})
	mounts := map[string]string{"apps/web": app, "vendor": base}

	response := mustBuild(t, Request{Mounts: mounts, Path: "apps/web"})

	if got := objects(t, response); len(got) != 2 || got["Service"].Metadata.Name != "x-app-1" {
		t.Errorf("%+v", got)
	}
}

func TestAWalkFindsMountedSources(t *testing.T) {
	root := writeTree(t, map[string]string{"a.yaml": application(1)["service"], "hidden/b.yaml": "not: read"})
	mounted := writeTree(t, map[string]string{"deep/c.yml": application(1)["configmap"]})

	response := mustBuild(t, Request{Mounts: map[string]string{"": root, "hidden": mounted}, Path: "."})

	if got := objects(t, response); len(response.Objects) != 2 || got["ConfigMap"].Metadata.Name != "app-1" {
		t.Errorf("%s", response.Objects)
	}
}

func TestFilesInMemoryCoverThoseOfTheSource(t *testing.T) {
	dir := applicationTree(t, nil)
	files := map[string][]byte{
		"service.yaml": []byte(application(2)["service"]), "new/dir/x.yaml": []byte(application(3)["deployment"]),
	}

	response := mustBuild(t, Request{Mounts: map[string]string{"": dir}, Files: files})

	if len(response.Objects) != 5 || objects(t, response)["Service"].Metadata.Name != "app-2" {
		t.Errorf("%s", response.Objects)
	}
}

func TestOnlySuspectsThatWereReadAreReported(t *testing.T) {
	dir := applicationTree(t, map[string]string{
		"kustomization.yaml": "resources: [service.yaml]\nsecretGenerator: [{name: s, files: [key.enc]}]",
		"key.enc":            "cipher", "other.enc": "cipher",
	})

	response := mustBuild(t, Request{Mounts: map[string]string{"": dir}, Suspects: []string{"./key.enc", "other.enc", "configmap.yaml"}})

	if !slices.Equal(response.Encrypted, []string{"./key.enc"}) {
		t.Errorf("%v", response.Encrypted)
	}
}

func TestAFailedBuildReportsItsSuspectsToo(t *testing.T) {
	dir := applicationTree(t, map[string]string{"kustomization.yaml": "resources: [service.yaml]\npatches: [{path: p.enc}]", "p.enc": "ENC[]"})

	_, err := buildRequest(t.Context(), Request{Mounts: map[string]string{"": dir}, Suspects: []string{"p.enc"}})

	if detail := fmt.Sprintf("%s", failureOf(t, err).Detail); detail != `{"encrypted":["p.enc"]}` {
		t.Error(detail)
	}
}

// A schema by which the containers of a Deployment are replaced by those of a patch, not merged.
const poison = `{"definitions": {"d": {"type": "object", "x-kubernetes-group-version-kind": [{"group": "apps", "version": "v1", "kind": "Deployment"}],
  "properties": {"spec": {"type": "object"}}}}}`

func TestASchemaOfOneTenantDoesNotReachTheNext(t *testing.T) {
	x := Transformations{Patches: []patch{{Patch: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: app-1}\nspec: {template: {spec: {containers: [{name: main, tty: true}]}}}"}}}
	image := func(dir string) string {
		response, err := buildDir(t.Context(), dir, ".", x)
		if err != nil {
			t.Fatal(err)
		}
		return objects(t, response)["Deployment"].Spec.Template.Spec.Containers[0].Image
	}
	clean := applicationTree(t, nil)
	for _, root := range []string{"openapi: {path: schema.json}\nresources: [deployment.yaml]", "resources: [base]"} {
		poisoned := applicationTree(t, map[string]string{
			"kustomization.yaml": root, "schema.json": poison, "base/schema.json": poison,
			"base/kustomization.yaml": "openapi: {path: schema.json}\nresources: [../deployment.yaml]",
		})
		if got := image(poisoned); got != "" {
			t.Errorf("the tenant's own schema was not used: %q", got)
		}
		if got := image(clean); got != "registry.example.com/app:1.2.3" {
			t.Errorf("the next build lost its image: %q", got)
		}
	}
}
