package helm

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/kube"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/yaml"
)

// past tells which manifests are built only to find what the cluster has of them. Objects of kinds that
// are no longer served are gone with their definition, so such a manifest is built without them.
//
// Helm builds the manifest of the release before beside that of the release to come, and its objects
// must all be known: a kind that is missing there fails the action.
type past func(manifest string) bool

// replaced are the manifests that an upgrade may replace. Helm builds the new manifest first, to validate it.
func replaced(records []*releasev1.Release) past {
	builds := 0
	return func(manifest string) bool {
		builds++
		return builds == 2 && slices.ContainsFunc(records, func(each *releasev1.Release) bool { return each.Manifest == manifest })
	}
}

// rolledBack is the manifest from which a rollback goes: Helm builds it first.
func rolledBack() past {
	builds := 0
	return func(string) bool {
		builds++
		return builds == 1
	}
}

// deleted is what an uninstallation builds, except hooks: they are to run.
func deleted(release *releasev1.Release) past {
	return func(manifest string) bool {
		return !slices.ContainsFunc(release.Hooks, func(hook *releasev1.Hook) bool { return hook.Manifest == manifest })
	}
}

// build makes objects of a manifest. One of the past is built with what is still served if it fails.
func (c *client) build(reader io.Reader) (kube.ResourceList, error) {
	text, err := io.ReadAll(reader)
	if err != nil {
		return nil, err
	}
	over := c.past != nil && c.past(string(text))
	found, err := c.Client.Build(bytes.NewReader(text), false)
	if err == nil || !missesKind(err) {
		return found, err
	}
	if !over {
		return found, cmp.Or(c.cluster.answers(string(text)), err)
	}
	served, failure := c.cluster.served(string(text))
	if failure != nil {
		return found, failure
	}
	return c.Client.Build(strings.NewReader(served), false)
}

// served returns a manifest without objects whose kinds are gone. Those of kinds that are served in
// another version only, as after an upgrade of Kubernetes, are there in that version.
func (c *cluster) served(manifest string) (string, error) {
	var text strings.Builder
	for _, document := range documents(manifest) {
		for _, each := range flattened(document) {
			kind := each.GroupVersionKind()
			_, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
			if meta.IsNoMatchError(err) {
				other, failure := c.mapper.RESTMapping(kind.GroupKind())
				switch {
				case failure == nil:
					each.SetAPIVersion(other.GroupVersionKind.GroupVersion().String())
				case c.mayServe(kind.GroupVersion()):
					return "", unknown(kind)
				default:
					slog.Warn("object is gone with the definition of its kind", "kind", kind.Kind, "group", kind.Group, "name", each.GetName())
					continue
				}
			}
			written, err := yaml.Marshal(each.Object)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&text, "---\n%s", written)
		}
	}
	return text.String(), nil
}

// answers returns an error if a kind of a manifest is missing only because its server does not answer.
func (c *cluster) answers(manifest string) error {
	for _, document := range documents(manifest) {
		for _, each := range flattened(document) {
			kind := each.GroupVersionKind()
			_, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
			if meta.IsNoMatchError(err) && c.mayServe(kind.GroupVersion()) {
				return unknown(kind)
			}
		}
	}
	return nil
}

func unknown(kind schema.GroupVersionKind) error {
	return fmt.Errorf("whether kind %q is served in %q is not known, because its API server does not answer: look at APIService '%s.%s'",
		kind.Kind, kind.GroupVersion(), kind.Version, kind.Group)
}

// mayServe tells whether the API server may serve a kind of this version that the mapper does not know.
// The mapper leaves out a version whose server does not answer, so it is asked for once more.
func (c *cluster) mayServe(version schema.GroupVersion) bool {
	client, err := discovery.NewDiscoveryClientForConfig(config(&c.wire))
	if err != nil {
		return true
	}
	_, err = client.ServerResourcesForGroupVersion(version.String())
	return err != nil && !apierrors.IsNotFound(err)
}
