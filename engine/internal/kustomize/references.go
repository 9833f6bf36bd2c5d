package kustomize

import (
	"slices"
	"strings"
	"sync"
	_ "unsafe" // for go:linkname

	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/utils"
	"sigs.k8s.io/kustomize/kyaml/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// builtinFieldSpecs is kustomize's own table, in an internal package. A copy could fall behind it and
// make the straight way differ from kustomize; if it moves, linking fails and somebody looks.
//
//go:linkname builtinFieldSpecs sigs.k8s.io/kustomize/api/internal/konfig/builtinpluginconsts.GetDefaultFieldSpecsAsMap
func builtinFieldSpecs() map[string]string

// referenceFields are the fields that hold names of other objects.
var referenceFields = sync.OnceValue(func() []types.FieldSpec {
	var table struct {
		NameReference []struct {
			FieldSpecs []types.FieldSpec `json:"fieldSpecs"`
		} `json:"nameReference"`
	}
	if err := sigsyaml.Unmarshal([]byte(builtinFieldSpecs()["namereference"]), &table); err != nil {
		panic(err)
	}
	var fields []types.FieldSpec
	for _, target := range table.NameReference {
		fields = append(fields, target.FieldSpecs...)
	}
	return fields
})

// hasPlainReferences tells whether kustomize would look at the object's references to others and leave
// them alone. Where nothing was renamed it rewrites none (api/filters/nameref), but it fails on fields
// that are not shaped like references, and it believes build annotations that a user has written.
func hasPlainReferences(r *resource.Resource) bool {
	for key := range r.GetAnnotations() {
		if slices.Contains(resource.BuildAnnotations, key) {
			return false
		}
	}
	id := r.CurId()
	for _, field := range referenceFields() {
		if id.IsSelected(&field.Gvk) && !isPlain(r.YNode(), utils.PathSplitter(field.Path, "/")) {
			return false
		}
	}
	return r.GetKind() != "RoleBinding" || hasPlainSubjects(r.YNode())
}

// isPlain follows path, through all elements of lists, to strings or to mappings that have a name.
func isPlain(node *yaml.Node, path []string) bool {
	if len(path) == 0 {
		return isName(node) || node.Kind == yaml.SequenceNode && !slices.ContainsFunc(node.Content, isNoName)
	}
	switch node.Kind {
	case yaml.SequenceNode:
		return !slices.ContainsFunc(node.Content, func(item *yaml.Node) bool { return !isPlain(item, path) })
	case yaml.MappingNode:
		value, ok := lookup(node, path[0])
		return ok && (value == nil || isPlain(value, path[1:]))
	default:
		return false
	}
}

func isName(node *yaml.Node) bool {
	if node.Kind == yaml.MappingNode {
		name, ok := lookup(node, "name")
		return ok && name != nil && isName(name)
	}
	return node.Kind == yaml.ScalarNode && node.Tag == yaml.NodeTagString
}

func isNoName(node *yaml.Node) bool { return !isName(node) }

// hasPlainSubjects covers what kustomize reads of a RoleBinding before it looks for references.
func hasPlainSubjects(node *yaml.Node) bool {
	subjects, ok := lookup(node, "subjects")
	if !ok || subjects == nil {
		return ok
	}
	return subjects.Kind == yaml.SequenceNode && !slices.ContainsFunc(subjects.Content, func(subject *yaml.Node) bool {
		for _, field := range []string{"kind", "namespace"} {
			value, ok := lookup(subject, field)
			if !ok || value != nil && value.Tag != yaml.NodeTagString {
				return true
			}
		}
		return false
	})
}

// lookup returns the value of a field, nil if there is none; false if the field is there twice.
func lookup(mapping *yaml.Node, field string) (value *yaml.Node, ok bool) {
	field = strings.TrimSuffix(field, "[]")
	if mapping.Kind != yaml.MappingNode {
		return nil, false
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value != field {
			continue
		}
		if value != nil {
			return nil, false
		}
		value = mapping.Content[i+1]
	}
	return value, true
}
