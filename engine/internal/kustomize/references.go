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

// shape is how the references of an object to others look.
type shape int

const (
	namesOnly shape = iota // strings, or nothing
	pairs                  // mappings too, of a name and perhaps a namespace
	odd                    // something at which kustomize might fail
)

// shapeOf looks at everything that kustomize looks at to rewrite references (api/filters/nameref).
// Build annotations that a user has written are odd too: kustomize believes them.
func shapeOf(r *resource.Resource) shape {
	for key := range r.GetAnnotations() {
		if slices.Contains(resource.BuildAnnotations, key) {
			return odd
		}
	}
	id := r.CurId()
	worst := namesOnly
	for _, field := range referenceFields() {
		if id.IsSelected(&field.Gvk) {
			worst = max(worst, shapeAt(r.YNode(), utils.PathSplitter(field.Path, "/")))
		}
	}
	if r.GetKind() == "RoleBinding" && !hasPlainSubjects(r.YNode()) {
		return odd
	}
	return worst
}

// shapeAt follows path, through all elements of lists.
func shapeAt(node *yaml.Node, path []string) shape {
	if len(path) == 0 {
		return shapeOfReference(node)
	}
	switch node.Kind {
	case yaml.SequenceNode:
		return worstOf(node.Content, func(item *yaml.Node) shape { return shapeAt(item, path) })
	case yaml.MappingNode:
		value, ok := lookup(node, path[0])
		switch {
		case !ok:
			return odd
		case value == nil:
			return namesOnly
		}
		return shapeAt(value, path[1:])
	default:
		return odd
	}
}

func shapeOfReference(node *yaml.Node) shape {
	switch node.Kind {
	case yaml.SequenceNode:
		return worstOf(node.Content, func(item *yaml.Node) shape {
			if item.Kind == yaml.SequenceNode {
				return odd
			}
			return shapeOfReference(item)
		})
	case yaml.MappingNode:
		if name, ok := lookup(node, "name"); ok && name != nil && shapeOfReference(name) == namesOnly {
			return pairs
		}
	case yaml.ScalarNode:
		if node.Tag == yaml.NodeTagString {
			return namesOnly
		}
	}
	return odd
}

func worstOf(items []*yaml.Node, shapeOf func(*yaml.Node) shape) shape {
	worst := namesOnly
	for _, item := range items {
		worst = max(worst, shapeOf(item))
	}
	return worst
}

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
