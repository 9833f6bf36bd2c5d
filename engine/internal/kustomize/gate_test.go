package kustomize

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// bomb is YAML that is small until its aliases are replaced.
func bomb(levels int) string {
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb}\na0: &a0 [x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < levels; i++ {
		alias := fmt.Sprintf("*a%d", i-1)
		text += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.Join([]string{alias, alias, alias, alias, alias, alias, alias, alias, alias}, ","))
	}
	return text
}

func TestWhatIsNotABuildIsRefusedByName(t *testing.T) {
	service := application(1)["service"]
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"https base":                      {map[string]string{"app/kustomization.yaml": "resources: ['https://github.com/org/repo//base?ref=v1']"}, []string{"app/kustomization.yaml", "resources[0]", "remote", "spec.sourceRefs"}},
		"https file":                      {map[string]string{"app/kustomization.yaml": "resources: [a.yaml, 'https://example.com/x.yaml']", "app/a.yaml": service}, []string{"app/kustomization.yaml", "resources[1]", "https://example.com/x.yaml"}},
		"git base":                        {map[string]string{"app/kustomization.yaml": "resources: ['git@github.com:org/repo.git']"}, []string{"resources[0]", "remote"}},
		"ssh base":                        {map[string]string{"app/kustomization.yaml": "bases: ['ssh://git@example.com/org/repo']"}, []string{"bases[0]", "remote"}},
		"forced git":                      {map[string]string{"app/kustomization.yaml": "components: ['git::https://example.com/org/repo']"}, []string{"components[0]", "remote"}},
		"bare github":                     {map[string]string{"app/kustomization.yaml": "resources: [GitHub.com/org/repo]"}, []string{"resources[0]", "remote"}},
		"other case":                      {map[string]string{"app/kustomization.yaml": "RESOURCES: ['https://github.com/org/repo']"}, []string{"resources[0]", "remote"}},
		"nested remote":                   {map[string]string{"app/kustomization.yaml": "resources: [../base]", "base/kustomization.yaml": "resources: ['https://example.com/o/r']"}, []string{"base/kustomization.yaml", "resources[0]"}},
		"remote patch":                    {map[string]string{"app/kustomization.yaml": "patches: [{path: 'https://example.com/p.yaml'}]"}, []string{"patches[0].path", "remote"}},
		"remote map data":                 {map[string]string{"app/kustomization.yaml": "configMapGenerator: [{name: x, files: ['a=https://example.com/a']}]"}, []string{"configMapGenerator[0].files[0]", "remote"}},
		"remote env":                      {map[string]string{"app/kustomization.yaml": "secretGenerator: [{name: x, envs: ['http://example.com/a']}]"}, []string{"secretGenerator[0].envs[0]", "remote"}},
		"remote schema":                   {map[string]string{"app/kustomization.yaml": "openapi: {path: 'https://example.com/s.json'}\nresources: [a.yaml]", "app/a.yaml": service}, []string{"openapi.path", "remote"}},
		"remote crd":                      {map[string]string{"app/kustomization.yaml": "crds: ['https://example.com/s.json']"}, []string{"crds[0]", "remote"}},
		"remote source of replacements":   {map[string]string{"app/kustomization.yaml": "replacements: [{path: 'https://example.com/r'}]"}, []string{"replacements[0].path", "remote"}},
		"outside":                         {map[string]string{"app/kustomization.yaml": "resources: [../../../etc/passwd]"}, []string{"app/kustomization.yaml", "resources[0]", "outside of the source"}},
		"outside data":                    {map[string]string{"app/kustomization.yaml": "secretGenerator: [{name: x, files: [../../root/.ssh/id_rsa]}]"}, []string{"secretGenerator[0].files[0]", "outside"}},
		"absolute":                        {map[string]string{"app/kustomization.yaml": "resources: [/etc]"}, []string{"resources[0]", "absolute"}},
		"absolute data":                   {map[string]string{"app/kustomization.yaml": "configMapGenerator: [{name: x, envs: [/proc/self/environ]}]"}, []string{"configMapGenerator[0].envs[0]", "absolute"}},
		"charts":                          {map[string]string{"app/kustomization.yaml": "helmCharts: [{name: x, repo: 'https://example.com'}]"}, []string{"app/kustomization.yaml", "helmCharts", "HelmRelease"}},
		"old charts":                      {map[string]string{"app/kustomization.yaml": "helmChartInflationGenerator: [{chartName: x}]"}, []string{"helmCharts"}},
		"chart plugin":                    {map[string]string{"app/kustomization.yaml": "generators: [g.yaml]", "app/g.yaml": "apiVersion: builtin\nkind: HelmChartInflationGenerator\nmetadata: {name: x}\nname: y\n"}, []string{"generators[0]", "HelmChartInflationGenerator"}},
		"exec generator":                  {map[string]string{"app/kustomization.yaml": "generators: [g.yaml]", "app/g.yaml": "apiVersion: x/v1\nkind: Evil\nmetadata: {name: x, annotations: {config.kubernetes.io/function: \"exec: {path: /bin/sh}\"}}\n"}, []string{"app/kustomization.yaml", "generators[0]", "Evil", "not run"}},
		"inline container":                {map[string]string{"app/kustomization.yaml": "transformers:\n- |\n  apiVersion: x/v1\n  kind: Container\n  metadata: {name: x, annotations: {config.kubernetes.io/function: \"container: {image: evil}\"}}\n"}, []string{"transformers[0]", "Container", "not run"}},
		"plugin in a directory":           {map[string]string{"app/kustomization.yaml": "validators: [v]", "app/v/kustomization.yaml": "resources: [g.yaml]", "app/v/g.yaml": "apiVersion: x/v1\nkind: Hidden\nmetadata: {name: x}\n"}, []string{"Hidden"}},
		"remote file of a plugin":         {map[string]string{"app/kustomization.yaml": "generators: [g.yaml]", "app/g.yaml": "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: x}\nfiles: ['a=http://127.0.0.1:9/x']\n"}, []string{"http://127.0.0.1:9/x", "no network"}},
		"bomb":                            {map[string]string{"app/a.yaml": bomb(9)}, []string{"app/a.yaml", "aliases expand"}},
		"bomb in a base":                  {map[string]string{"app/kustomization.yaml": "namePrefix: x-\nresources: [a.yaml]", "app/a.yaml": bomb(9)}, []string{"app/a.yaml", "aliases expand"}},
		"bomb in a patch":                 {map[string]string{"app/kustomization.yaml": "resources: [a.yaml]\npatches: [{path: p.yaml}]", "app/a.yaml": service, "app/p.yaml": bomb(9)}, []string{"app/p.yaml", "aliases expand"}},
		"bomb in a kustomization":         {map[string]string{"app/kustomization.yaml": bomb(9)}, []string{"app/kustomization.yaml", "aliases expand"}},
		"recursive alias":                 {map[string]string{"app/a.yaml": "apiVersion: v1\nkind: X\nmetadata: {name: a}\na: &a [*a]\n"}, []string{"app/a.yaml", "contains it"}},
		"deep":                            {map[string]string{"app/a.yaml": "apiVersion: v1\nkind: X\nmetadata: {name: a}\na: " + strings.Repeat("[", 300) + strings.Repeat("]", 300)}, []string{"X a", "250 levels"}},
		"deeper":                          {map[string]string{"app/a.yaml": "a: " + strings.Repeat("[", 20_000)}, []string{"app/a.yaml"}},
		"many objects":                    {map[string]string{"app/a.yaml": many(20_000)}, []string{"10000 objects", "split"}},
		"many objects in a kustomization": {map[string]string{"app/kustomization.yaml": "namePrefix: x-\nresources: [a.yaml]", "app/a.yaml": many(20_000)}, []string{"10000 objects", "split"}},
		"large file":                      {map[string]string{"app/kustomization.yaml": "resources: [a.yaml]\npatches: [{path: p.yaml}]", "app/a.yaml": service, "app/p.yaml": strings.Repeat("#", 17<<20)}, []string{"app/p.yaml", "16 MiB"}},
		"no YAML":                         {map[string]string{"app/a.yaml": service, "app/b/values.yaml": "replicas: 3\n"}, []string{"failed to decode Kubernetes YAML from app/b/values.yaml"}},
		"keys twice":                      {map[string]string{"app/a.yaml": "apiVersion: v1\nkind: X\nmetadata: {name: a}\na: 1\na: 2\n"}, []string{"app/a.yaml", "already defined"}},
		"no manifests":                    {map[string]string{"app/README.md": "x"}, []string{"no *.yaml or *.yml file in \"app\""}},
		"exponential":                     {exponential(40), []string{"more than 20000 files"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := writeTree(t, c.files)
			_, err := buildDir(t.Context(), dir, "./app", Transformations{})
			wantFailure(t, err, codeBuildFailed, c.want...)
		})
	}
}

func many(objects int) string {
	var text strings.Builder
	for i := range objects {
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\n", i)
	}
	return text.String()
}

// exponential is a chain of kustomizations, each of which lists the next twice.
func exponential(levels int) map[string]string {
	files := map[string]string{"app/kustomization.yaml": "resources: [../n0, ../n0/]"}
	for i := range levels {
		files[fmt.Sprintf("n%d/kustomization.yaml", i)] = fmt.Sprintf("namePrefix: x\nresources: [../n%d, ../n%d/]", i+1, i+1)
	}
	files[fmt.Sprintf("n%d/kustomization.yaml", levels)] = "namePrefix: x\n"
	return files
}

func wantFailure(t *testing.T, err error, code string, parts ...string) {
	t.Helper()
	failure := failureOf(t, err)
	if failure.Code != code {
		t.Errorf("code %s, want %s", failure.Code, code)
	}
	for _, part := range parts {
		if !strings.Contains(failure.Message, part) {
			t.Errorf("message %q lacks %q", failure.Message, part)
		}
	}
}

func TestSymbolicLinksOutOfTheSourceAreRefused(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret.yaml")
	if err := os.WriteFile(secret, []byte(application(1)["configmap"]), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, kustomization := range map[string]string{
		"found in a walk": "", "a resource": "resources: [link.yaml]", "a patch": "patches: [{path: link.yaml}]",
		"data": "configMapGenerator: [{name: x, files: [link.yaml]}]", "a directory": "resources: [linked]",
		"below a directory": "resources: [linked/secret.yaml]",
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"app/README.md": ""}
			if kustomization != "" {
				files["app/kustomization.yaml"] = kustomization
			}
			dir := writeTree(t, files)
			link(t, secret, filepath.Join(dir, "app/link.yaml"))
			link(t, filepath.Dir(secret), filepath.Join(dir, "app/linked"))
			_, err := buildDir(t.Context(), dir, "app", Transformations{})
			wantFailure(t, err, codeBuildFailed, "app/link", "symbolic link", "outside the source")
		})
	}
}

func TestSymbolicLinksInsideTheSourceAreFollowed(t *testing.T) {
	dir := writeTree(t, map[string]string{"base/a.yaml": application(1)["service"], "app/kustomization.yaml": "resources: [a.yaml]"})
	link(t, "../base/a.yaml", filepath.Join(dir, "app/a.yaml"))

	response, err := buildDir(t.Context(), dir, "app", Transformations{})

	if err != nil || len(response.Objects) != 1 {
		t.Errorf("%v, %v", response, err)
	}
}

func link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}

func TestADirectoryNamedLikeAnAddressIsNotRemote(t *testing.T) {
	dir := writeTree(t, map[string]string{"app/kustomization.yaml": "resources: [team@prod/x.yaml]", "app/team@prod/x.yaml": application(1)["service"]})

	response, err := buildDir(t.Context(), dir, "app", Transformations{})

	if err != nil || len(response.Objects) != 1 {
		t.Errorf("%v, %v", response, err)
	}
}

func TestAnchorsThatDoNotExplodeAreFine(t *testing.T) {
	dir := writeTree(t, map[string]string{"a.yaml": bomb(4)})

	if _, err := buildDir(t.Context(), dir, ".", Transformations{}); err != nil {
		t.Error(err)
	}
}

func TestABuildEndsAtItsDeadline(t *testing.T) {
	dir := writeTree(t, exponential(20))
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()

	_, err := buildDir(ctx, dir, "app", Transformations{})

	if err == nil || !strings.Contains(err.Error(), "deadline") {
		t.Errorf("error %v", err)
	}
}

func TestABombInTheSpecIsRefused(t *testing.T) {
	dir := writeTree(t, map[string]string{"a.yaml": application(1)["service"]})

	_, err := buildDir(t.Context(), dir, ".", Transformations{Patches: []patch{{Patch: bomb(9)}}})

	wantFailure(t, err, codeBuildFailed, "spec.patches[0]", "aliases expand")
}

func TestContentOfManifestsStaysOutOfMessages(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"broken secret":    {"a.yaml": "kind: Secret\napiVersion: v1\nmetadata: {}\nstringData: {password: hunter2}\n"},
		"bad patch":        {"kustomization.yaml": "resources: [a.yaml]\npatches: [{patch: \"- op: nonsense\\n  path: /hunter2\", target: {kind: Service}}]", "a.yaml": application(1)["service"]},
		"bad role binding": {"kustomization.yaml": "namePrefix: x\nresources: [a.yaml]", "a.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: b}\nsubjects: [{kind: User, password: hunter2}]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := buildDir(t.Context(), writeTree(t, files), ".", Transformations{})

			if err == nil || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error %v", err)
			}
		})
	}
}
