package helm

import (
	"errors"
	"net/http"
	"sync"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// clusterLimit bounds how many API servers a worker remembers.
const clusterLimit = 8

// clusters are what API servers serve, by the name that the parent gives to each of their states.
var clusters = struct {
	sync.Mutex
	known map[string]*cluster
}{known: map[string]*cluster{}}

// cluster is what one API server serves. Only one action at a time runs in a process, so its
// requests go where those of the running action go.
type cluster struct {
	wire         wire
	discovery    discovery.CachedDiscoveryInterface
	mapper       *mapper
	capabilities *common.Capabilities
}

// wire is the transport of the running action.
type wire struct{ http.RoundTripper }

func enter(name string, transport http.RoundTripper) (*cluster, error) {
	clusters.Lock()
	defer clusters.Unlock()
	c := clusters.known[name]
	if c == nil {
		if len(clusters.known) >= clusterLimit {
			clear(clusters.known)
		}
		c = &cluster{}
		client, err := discovery.NewDiscoveryClientForConfig(config(&c.wire))
		if err != nil {
			return nil, err
		}
		c.discovery = memory.NewMemCacheClient(client)
		c.mapper = &mapper{DeferredDiscoveryRESTMapper: restmapper.NewDeferredDiscoveryRESTMapper(c.discovery)}
		clusters.known[name] = c
	}
	c.wire.RoundTripper = transport
	c.mapper.refreshed = false
	return c, nil
}

// fill asks for the capabilities of the API server unless they are known.
//
// A version whose server does not answer is served: templates that ask for it must not leave out
// objects, which an upgrade would then delete. Which kinds it has is asked again in the next action.
func (c *cluster) fill() (*common.Capabilities, error) {
	if c.capabilities != nil {
		return c.capabilities.Copy(), nil
	}
	version, err := c.discovery.ServerVersion()
	if err != nil {
		return nil, err
	}
	served, err := action.GetVersionSet(c.discovery)
	if err != nil {
		return nil, err
	}
	silent := c.silent()
	for each := range silent {
		served = append(served, each.String())
	}
	found := &common.Capabilities{
		APIVersions: served,
		KubeVersion: common.KubeVersion{Version: version.GitVersion, Major: version.Major, Minor: version.Minor},
		HelmVersion: common.DefaultCapabilities.HelmVersion,
	}
	if len(silent) > 0 {
		c.discovery.Invalidate()
	} else {
		c.capabilities = found
	}
	return found.Copy(), nil
}

// silent are the versions whose server, an aggregated one, did not answer.
func (c *cluster) silent() map[schema.GroupVersion]error {
	_, _, err := c.discovery.ServerGroupsAndResources()
	var failed *discovery.ErrGroupDiscoveryFailed
	if errors.As(err, &failed) {
		return failed.Groups
	}
	return nil
}

// forget asks the API server again for what it serves.
func (c *cluster) forget() {
	c.mapper.Reset()
	c.capabilities = nil
}

// host stands for the API server, whose address the parent knows. No message names it.
const host = "http://cluster"

// config has no address that would mean anything.
func config(transport http.RoundTripper) *rest.Config {
	return &rest.Config{
		Host: host, Transport: transport, QPS: -1, UserAgent: "helm",
		WarningHandler: rest.NoWarnings{},
		// The parent reads what is written to the storage.
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON, AcceptContentTypes: runtime.ContentTypeJSON},
	}
}

// mapper asks the API server again, once an action, for a kind that it does not know.
type mapper struct {
	*restmapper.DeferredDiscoveryRESTMapper
	refreshed bool
}

func (m *mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	mapping, err := m.DeferredDiscoveryRESTMapper.RESTMapping(kind, versions...)
	if meta.IsNoMatchError(err) && !m.refreshed {
		m.refreshed = true
		m.Reset()
		mapping, err = m.DeferredDiscoveryRESTMapper.RESTMapping(kind, versions...)
	}
	return mapping, err
}

// getter is what Helm and kubectl build their clients from.
type getter struct {
	*cluster
	namespace string
}

func (g getter) ToRESTConfig() (*rest.Config, error) { return config(&g.wire), nil }

func (g getter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return g.discovery, nil
}

func (g getter) ToRESTMapper() (meta.RESTMapper, error) {
	return g.mapper, nil
}

func (g getter) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	overrides := &clientcmd.ConfigOverrides{Context: clientcmdapi.Context{Namespace: g.namespace}}
	return clientcmd.NewDefaultClientConfig(*clientcmdapi.NewConfig(), overrides)
}
