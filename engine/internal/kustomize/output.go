package kustomize

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"penstock.dev/engine/internal/tree"
)

// Limits on what comes out of a build.
const (
	maxObjects = 10_000
	maxDepth   = 250
)

// encode writes resources as JSON objects. Kustomizations of kustomize itself are configuration, no
// objects; Flux leaves them out too (fluxcd/pkg ssa/utils/read.go).
func encode(resources []*resource.Resource) ([]json.RawMessage, error) {
	if err := checkCount(len(resources)); err != nil {
		return nil, err
	}
	objects := make([]json.RawMessage, 0, len(resources))
	for _, r := range resources {
		if isConfiguration(r) {
			continue
		}
		if r.GetApiVersion() == "" {
			return nil, buildFailed("%s %s has no apiVersion", r.GetKind(), r.GetName())
		}
		object, err := encodeOne(r)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", r.GetKind(), r.GetName(), err)
		}
		if depth(object) > maxDepth {
			return nil, tree.Denyf("%s %s is nested more than %d levels deep", r.GetKind(), r.GetName(), maxDepth)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// encodeOne is r.MarshalJSON, without its way through YAML text where that changes nothing: it takes
// half of a build's time.
func encodeOne(r *resource.Resource) (json.RawMessage, error) {
	if !survivesText(r.YNode()) {
		return r.MarshalJSON()
	}
	var object map[string]any
	if err := r.YNode().Decode(&object); err != nil {
		return nil, err
	}
	return json.Marshal(object)
}

// survivesText tells whether node is surely the same after it was written and read again. An empty
// null becomes an empty string, dates lose their spelling, indented lines in folded text get blank
// ones before them, and some line breaks of Unicode even begin a new field.
func survivesText(node *yaml.Node) bool {
	switch node.Kind {
	case yaml.MappingNode, yaml.SequenceNode:
	case yaml.ScalarNode:
		if !scalarSurvivesText(node) {
			return false
		}
	default:
		return false
	}
	for _, text := range []string{node.Value, node.HeadComment, node.LineComment, node.FootComment} {
		if strings.ContainsFunc(text, isUnusual) {
			return false
		}
	}
	return !slices.ContainsFunc(node.Content, func(child *yaml.Node) bool { return !survivesText(child) })
}

func scalarSurvivesText(node *yaml.Node) bool {
	switch node.Tag {
	case yaml.NodeTagInt, yaml.NodeTagBool, yaml.NodeTagFloat:
		return true
	case yaml.NodeTagNull:
		return node.Value != ""
	case yaml.NodeTagString:
		switch {
		case node.Style&yaml.FoldedStyle != 0:
			return !strings.Contains(node.Value, "\n")
		case node.Style&yaml.LiteralStyle != 0:
			text := strings.TrimSuffix(node.Value, "\n")
			return text != "" && text == strings.TrimSpace(text)
		}
		return true
	}
	return false
}

func isUnusual(r rune) bool {
	return r != '\n' && !unicode.IsPrint(r)
}

func checkCount(objects int) error {
	if objects > maxObjects {
		return tree.Denyf("the build has more than %d objects: split it into several Kustomizations", maxObjects)
	}
	return nil
}

func isConfiguration(r *resource.Resource) bool {
	group, _, _ := strings.Cut(types.KustomizationVersion, "/")
	return r.GetKind() == types.KustomizationKind && r.GetGvk().Group == group
}

// depth counts how deep JSON is nested; decoders recurse.
func depth(data []byte) int {
	deepest, level, quoted := 0, 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			level++
			deepest = max(deepest, level)
		case c == '}' || c == ']':
			level--
		}
	}
	return deepest
}
