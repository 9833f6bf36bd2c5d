package helm

import (
	"bytes"
	"fmt"
	"time"

	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
)

// Policies for the definitions in the directory crds of a chart.
const (
	skip          = "Skip"
	create        = "Create"
	createReplace = "CreateReplace"
)

// establishing bounds the wait for new definitions.
const establishing = 60 * time.Second

// define applies the definitions of the chart before its templates are rendered. Helm itself has no
// policy for an upgrade, and with server-side apply changes those that exist. Definitions of dependencies
// that are not enabled are none of the release's.
func (r *run) define(chart *chartv2.Chart) error {
	policy := r.Options.CRDs
	if policy != create && policy != createReplace {
		return nil
	}
	enabled, err := r.enabled(chart)
	if err != nil {
		return fmt.Errorf("processing the dependencies of the chart: %w", err)
	}
	var changed kube.ResourceList
	for _, definition := range enabled.CRDObjects() {
		found, err := r.kube.Client.Build(bytes.NewReader(definition.File.Data), false)
		if err == nil {
			err = r.applyDefinitions(&changed, found, policy)
		}
		if err != nil {
			return fmt.Errorf("failed to apply CustomResourceDefinition from %s, as spec.%s.crds (%s) says: %w", definition.Filename, r.releasing, policy, err)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	if err := r.established(changed); err != nil {
		return err
	}
	r.cluster.forget()
	return nil
}

func (r *run) applyDefinitions(changed *kube.ResourceList, found kube.ResourceList, policy string) error {
	for _, each := range found {
		object, ok := each.Object.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("%s has the unknown format %T", each.Name, each.Object)
		}
		if !defines(object) {
			continue
		}
		if policy == create {
			exists, err := isThere(each)
			if err != nil {
				return err
			}
			if exists {
				continue
			}
		}
		mark(object, &r.Options.CommonMetadata)
		list := kube.ResourceList{each}
		if _, err := r.kube.Create(list, kube.ClientCreateOptionServerSideApply(true, policy == createReplace)); err != nil {
			return err
		}
		*changed = append(*changed, each)
	}
	return nil
}

// defines tells whether an object is a definition. Others in the directory crds are ignored, as by Flux.
func defines(object *unstructured.Unstructured) bool {
	kind := object.GroupVersionKind()
	return kind.Group == "apiextensions.k8s.io" && kind.Kind == "CustomResourceDefinition"
}

func isThere(each *resource.Info) (bool, error) {
	_, err := resource.NewHelper(each.Client, each.Mapping).Get(each.Namespace, each.Name)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// established waits until the API server serves the kinds that are defined.
func (r *run) established(definitions kube.ResourceList) error {
	deadline := time.Now().Add(establishing)
	for _, each := range definitions {
		for pause := 20 * time.Millisecond; !isEstablished(each); pause = min(2*pause, time.Second) {
			if time.Now().After(deadline) {
				return fmt.Errorf("CustomResourceDefinition %s was not established within %s", each.Name, establishing)
			}
			select {
			case <-r.ctx.Done():
				return r.ctx.Err()
			case <-time.After(pause):
			}
			if err := each.Get(); err != nil {
				return err
			}
		}
	}
	return nil
}

func isEstablished(each *resource.Info) bool {
	object, ok := each.Object.(*unstructured.Unstructured)
	if !ok {
		return true
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, each := range conditions {
		condition, _ := each.(map[string]any)
		if condition["type"] == "Established" {
			return condition["status"] == "True"
		}
	}
	return false
}

// mark adds the common metadata to an object.
func mark(object *unstructured.Unstructured, common *CommonMetadata) {
	object.SetLabels(merged(object.GetLabels(), common.Labels))
	object.SetAnnotations(merged(object.GetAnnotations(), common.Annotations))
}

func merged(base, over map[string]string) map[string]string {
	if len(over) == 0 {
		return base
	}
	all := map[string]string{}
	for _, each := range []map[string]string{base, over} {
		for key, value := range each {
			all[key] = value
		}
	}
	return all
}
