package kustomize

import (
	"bytes"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"

	"penstock.dev/engine/internal/tree"
)

// gate looks at every file before kustomize does and denies what must not happen in a build: what is
// remote, what lies outside of the source, what runs programs, and what explodes.
type gate struct {
	tree         *tree.Tree
	sawOpenAPI   bool // a kustomization brings a schema of its own
	allowOpenAPI bool
	objects      map[string]int // in each file, at least
}

func (g *gate) check(name string, data []byte) error {
	if slices.Contains(konfig.RecognizedKustomizationFileNames(), path.Base(name)) {
		if err := g.checkKustomization(name, data); err != nil {
			return err
		}
	}
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json", "":
		if err := checkInline(string(data)); err != nil {
			return tree.Denyf("%s: %v", name, err)
		}
	}
	// The time that kustomize takes grows with the square of the number of objects: count before.
	g.objects[name] = bytes.Count(data, []byte("\nkind:"))
	total := 0
	for _, count := range g.objects {
		total += count
	}
	return checkCount(total)
}

func (g *gate) checkKustomization(name string, data []byte) error {
	var k types.Kustomization
	if yaml.Unmarshal(data, &k) != nil {
		return nil // kustomize fails on it too, and says why
	}
	if len(k.HelmCharts)+len(k.HelmChartInflationGenerator) > 0 || k.HelmGlobals != nil {
		return tree.Denyf("%s: helmCharts: builds do not inflate charts, use a HelmRelease", name)
	}
	if len(k.OpenAPI) > 0 {
		if g.sawOpenAPI = true; !g.allowOpenAPI {
			return tree.Denyf("%s: openapi: the build starts again", name)
		}
	}
	for _, ref := range references(&k) {
		if err := g.checkReference(name, ref); err != nil {
			return err
		}
	}
	for _, ref := range plugins(&k) {
		if err := g.checkPlugin(name, ref); err != nil {
			return err
		}
	}
	for i, patch := range k.Patches {
		if err := checkInline(patch.Patch); err != nil {
			return tree.Denyf("%s: patches[%d]: %v", name, i, err)
		}
	}
	return nil
}

// reference is an entry of a kustomization that names a file or a directory.
type reference struct {
	field  string
	value  string
	inline bool // it may also be the content itself
}

func references(k *types.Kustomization) []reference {
	var refs []reference
	for _, list := range []struct {
		field  string
		values []string
	}{
		{"resources", k.Resources}, {"bases", k.Bases}, {"components", k.Components}, {"crds", k.Crds},
		{"configurations", k.Configurations},
	} {
		refs = appendEach(refs, list.field, list.values)
	}
	refs = append(refs, plugins(k)...)
	for i, patch := range k.PatchesStrategicMerge {
		field := fmt.Sprintf("patchesStrategicMerge[%d]", i)
		refs = append(refs, reference{field: field, value: string(patch), inline: true})
	}
	for i, patch := range k.Patches {
		refs = append(refs, reference{field: fmt.Sprintf("patches[%d].path", i), value: patch.Path})
	}
	for i, patch := range k.PatchesJson6902 {
		refs = append(refs, reference{field: fmt.Sprintf("patchesJson6902[%d].path", i), value: patch.Path})
	}
	for i, replacement := range k.Replacements {
		refs = append(refs, reference{field: fmt.Sprintf("replacements[%d].path", i), value: replacement.Path})
	}
	for i, m := range k.ConfigMapGenerator {
		refs = appendSources(refs, fmt.Sprintf("configMapGenerator[%d]", i), m.KvPairSources)
	}
	for i, s := range k.SecretGenerator {
		refs = appendSources(refs, fmt.Sprintf("secretGenerator[%d]", i), s.KvPairSources)
	}
	return append(refs, reference{field: "openapi.path", value: k.OpenAPI["path"]})
}

func appendEach(refs []reference, field string, values []string) []reference {
	for i, value := range values {
		refs = append(refs, reference{field: fmt.Sprintf("%s[%d]", field, i), value: value})
	}
	return refs
}

func appendSources(refs []reference, field string, sources types.KvPairSources) []reference {
	for i, file := range sources.FileSources {
		if _, name, ok := strings.Cut(file, "="); ok {
			file = name
		}
		refs = append(refs, reference{field: fmt.Sprintf("%s.files[%d]", field, i), value: file})
	}
	refs = appendEach(refs, field+".envs", sources.EnvSources)
	return append(refs, reference{field: field + ".env", value: sources.EnvSource})
}

func (g *gate) checkReference(name string, ref reference) error {
	value := ref.value
	if value == "" || ref.inline && strings.ContainsAny(value, "\n{") {
		return nil
	}
	dir := path.Dir(name)
	switch {
	case isRemote(value) && !g.tree.IsFile(path.Join(dir, value)):
		return tree.Denyf("%s: %s: %q is remote; a build reads only its sources, "+
			"add the remote one to spec.sourceRefs", name, ref.field, value)
	case path.IsAbs(value):
		return tree.Denyf("%s: %s: %q is an absolute path", name, ref.field, value)
	case strings.HasPrefix(path.Join(dir, value), ".."):
		return tree.Denyf("%s: %s: %q is outside of the source", name, ref.field, value)
	}
	return nil
}

// Other spellings that kustomize hands to git: github.com without a scheme, and scp's user@host.
var gitLike = regexp.MustCompile(`(?i)^(git::|ssh://|https?://|file://|github\.com[/:]|[a-z][a-z0-9-]*@[^/]*[:/])`)

// isRemote tells whether kustomize might take value for an address, in api/internal/git/repospec.go
// or api/internal/loader/fileloader.go.
func isRemote(value string) bool {
	if u, err := url.Parse(value); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		return true
	}
	return gitLike.MatchString(value)
}

func plugins(k *types.Kustomization) []reference {
	refs := appendEach(nil, "generators", k.Generators)
	refs = appendEach(refs, "transformers", k.Transformers)
	refs = appendEach(refs, "validators", k.Validators)
	for i := range refs {
		refs[i].inline = true
	}
	return refs
}

// checkPlugin denies plugins that are not built in: programs, containers, charts.
func (g *gate) checkPlugin(name string, ref reference) error {
	content := []byte(ref.value)
	if file := path.Join(path.Dir(name), ref.value); g.tree.IsFile(file) {
		var err error
		if content, err = g.tree.ReadFile(file); err != nil {
			return err
		}
	}
	for _, document := range strings.Split(string(content), "\n---") {
		var plugin types.TypeMeta
		if yaml.Unmarshal([]byte(document), &plugin) != nil || plugin.Kind == "" {
			continue // a directory, or kustomize fails on it
		}
		if plugin.APIVersion != konfig.BuiltinPluginApiVersion || strings.HasPrefix(plugin.Kind, "HelmChart") {
			return tree.Denyf("%s: %s: %s %s is not run; only plugins that are built into kustomize "+
				"are, and none that needs another program", name, ref.field, plugin.APIVersion, plugin.Kind)
		}
	}
	return nil
}
