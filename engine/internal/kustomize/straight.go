package kustomize

import (
	"cmp"
	"path"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/filters/namespace"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/provider"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/resid"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"penstock.dev/engine/internal/tree"
)

// straight builds what needs little of kustomize: manifests, and kustomizations that only list
// resources, perhaps put into one namespace. It uses kustomize's own functions for each step that
// changes an object, so that the result is the same, and skips those that change nothing in such a
// build but take its time, which grows with the square of the number of objects.
//
// It returns nothing wherever it is not sure, errors included: kustomize then decides and explains.
// Only too many objects are an error at once, for kustomize would not come to an end with them.
func straight(t *tree.Tree, dir string, root *root, x *Transformations) ([]*resource.Resource, error) {
	rest, k := *x, root.kustomization
	target := cmp.Or(x.TargetNamespace, k.Namespace)
	if rest.TargetNamespace, k.Namespace = "", ""; !rest.isIdentity() {
		return nil, nil
	}
	s := &straightBuild{
		tree:      t,
		factory:   provider.NewDefaultDepProvider().GetResourceFactory(),
		ids:       map[resid.ResId]bool{},
		namespace: target,
	}
	complete := s.addKustomization(&k, dir, nil)
	if err := checkCount(len(s.resources)); err != nil {
		return nil, err
	}
	if !complete || len(s.resources) == 0 || !s.setNamespace() {
		return nil, nil
	}
	return s.finish(), nil
}

type straightBuild struct {
	tree      *tree.Tree
	factory   *resource.Factory
	ids       map[resid.ResId]bool
	namespace string
	resources []*resource.Resource
}

// addKustomization adds what k lists; above are the directories whose kustomizations led here.
func (s *straightBuild) addKustomization(k *types.Kustomization, dir string, above []string) bool {
	if !onlyLists(k) {
		return false
	}
	above = append(above, dir)
	for _, entry := range slices.Concat(k.Resources, k.Bases) {
		name := path.Join(dir, entry)
		if data, err := s.tree.ReadFile(name); err == nil {
			if !s.addFile(data) {
				return false
			}
		} else if isAmbiguous(entry) || !s.tree.IsDir(name) || !s.addDir(name, above) {
			return false
		}
	}
	return true
}

func (s *straightBuild) addDir(dir string, above []string) bool {
	contains := func(visited string) bool { return visited == dir || strings.HasPrefix(visited+"/", dir+"/") }
	if slices.ContainsFunc(above, contains) {
		return false // a cycle
	}
	files := kustomizationFiles(s.tree, dir)
	if len(files) != 1 {
		return false
	}
	data, err := s.tree.ReadFile(path.Join(dir, files[0]))
	if err != nil {
		return false
	}
	var k types.Kustomization
	if k.Unmarshal(data) != nil {
		return false
	}
	return s.addKustomization(&k, dir, above)
}

func (s *straightBuild) addFile(data []byte) bool {
	resources, err := s.factory.SliceFromBytes(data)
	if err != nil {
		return false
	}
	for _, r := range resources {
		if !s.isNew(r) || !s.isIndifferent(r) {
			return false
		}
		s.resources = append(s.resources, r)
	}
	return checkCount(len(s.resources)) == nil
}

// isNew is the check of resmap.Append: the same object in another spelling of the default namespace
// is the same.
func (s *straightBuild) isNew(r *resource.Resource) bool {
	id := r.CurId()
	id.Namespace = id.EffectiveNamespace()
	known := s.ids[id]
	s.ids[id] = true
	return !known
}

// isIndifferent tells whether kustomize would leave the references in r alone. It rewrites the name
// in one if the object it refers to was renamed, here none; and the namespace in a pair if that
// object was moved.
func (s *straightBuild) isIndifferent(r *resource.Resource) bool {
	if s.namespace == "" {
		return shapeOf(r) != odd
	}
	switch r.GetKind() {
	case "Namespace", "RoleBinding", "ClusterRoleBinding", "APIService", "CustomResourceDefinition":
		return false // a namespace is more to them than metadata (builtinpluginconsts/namespace.go)
	}
	metadata, _ := lookup(r.YNode(), "metadata")
	annotations, ok := lookup(metadata, "annotations")
	return shapeOf(r) == namesOnly && ok && (annotations == nil || annotations.Kind == yaml.MappingNode)
}

// setNamespace moves the objects, as the NamespaceTransformer; it may find two of one name.
func (s *straightBuild) setNamespace() bool {
	if s.namespace == "" {
		return true
	}
	filter := namespace.Filter{Namespace: s.namespace}
	s.ids = map[resid.ResId]bool{}
	for _, r := range s.resources {
		if r.ApplyFilter(filter) != nil || !s.isNew(r) {
			return false
		}
	}
	return true
}

// finish does what krusty does to the accumulated resources in the end.
func (s *straightBuild) finish() []*resource.Resource {
	kept := s.resources[:0]
	for _, r := range s.resources {
		if local, ok := r.GetAnnotations()[konfig.IgnoredByKustomizeAnnotation]; ok && local != "false" {
			continue
		}
		r.RemoveBuildAnnotations()
		if r.SetOrigin(nil) != nil || r.ClearTransformations() != nil {
			return nil
		}
		kept = append(kept, r)
	}
	return kept
}

// isAmbiguous tells whether ".." is a part of a name in the path: kustomize refuses such directories.
func isAmbiguous(entry string) bool {
	return strings.Contains(strings.ReplaceAll("/"+entry, "/..", ""), "..")
}

// onlyLists tells whether k has resources and nothing that changes them.
func onlyLists(k *types.Kustomization) bool {
	rest := *k
	rest.FixKustomization()
	if len(rest.EnforceFields()) > 0 || rest.Kind != types.KustomizationKind || len(rest.Resources) == 0 {
		return false
	}
	rest.Resources, rest.MetaData, rest.TypeMeta = nil, nil, types.TypeMeta{}
	return reflect.ValueOf(rest).IsZero()
}
