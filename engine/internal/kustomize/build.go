// Package kustomize builds a tree of manifests as Flux does: with the directory's kustomization, or
// with one that lists everything below it, changed by the fields of a Kustomization's spec.
//
// Two ways lead to the same objects. Sets that need none of kustomize's work take the straight one,
// see straight.go; everything else, every error included, goes through kustomize itself.
package kustomize

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"regexp"
	"sort"
	"strings"
	"sync"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/openapi"
	"sigs.k8s.io/yaml"

	"penstock.dev/engine/internal/call"
	"penstock.dev/engine/internal/tree"
)

// Request asks for one build.
type Request struct {
	// Mounts are directories of this machine by their place in the tree; "" is the root.
	Mounts map[string]string `json:"mounts"`
	// Path is the directory to build. ".." stops at the root of the tree.
	Path string `json:"path"`
	// Transformations are fields of the spec of a Kustomization.
	Transformations Transformations `json:"transformations"`
	// Files are laid over the tree.
	Files map[string][]byte `json:"files"`
	// Suspects are names of files of which the caller wants to know whether they were read.
	Suspects []string `json:"suspects"`
	// Questions are those of an earlier build, on whose outcome this request depends.
	Questions string `json:"questions"`
}

// Response is the answer to a Request.
type Response struct {
	Objects   []json.RawMessage `json:"objects"`
	Encrypted []string          `json:"encrypted"`
	// Footprint is what the objects depend on in the mounts, and the request if it has Questions.
	Footprint tree.Footprint `json:"footprint"`
}

// Codes of failures.
const (
	codePathNotFound = "PathNotFound" // the directory to build is not there
	codeBuildFailed  = "BuildFailed"  // the manifests cannot be built
)

// kyaml keeps its schema in package variables: one build at a time.
var building sync.Mutex

// Build is an operation: a Request becomes a Response. The detail of a failure tells, as "encrypted",
// which suspects were read until then.
func Build(ctx context.Context, in []byte) ([]byte, error) {
	var request Request
	if err := json.Unmarshal(in, &request); err != nil {
		return nil, fmt.Errorf("reading the request: %w", err)
	}
	building.Lock()
	defer building.Unlock()
	isolate()
	t, err := tree.Open(ctx, request.Mounts, request.Files, tree.DefaultLimits)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	objects, err := build(t, &request)
	encrypted := seen(t, request.Suspects)
	if err != nil {
		return nil, explain(err, encrypted)
	}
	footprint, err := t.Footprint(ctx, request.Mounts, request.Questions)
	if err != nil {
		footprint = tree.Footprint{} // the next revision is built whatever it changes
	}
	return json.Marshal(Response{Objects: objects, Encrypted: encrypted, Footprint: footprint})
}

// build starts again if a kustomization brings a schema of its own. kustomize leaves that in package
// variables for anyone who builds next: such a build begins and ends with a reset, which the others,
// to which it costs most of their time, do not need.
func build(t *tree.Tree, request *Request) ([]json.RawMessage, error) {
	g := &gate{tree: t, objects: map[string]int{}}
	t.SetCheck(g.check)
	objects, err := attempt(t, request)
	if g.sawOpenAPI {
		g.allowOpenAPI = true
		t.Restart()
		openapi.ResetOpenAPI()
		defer openapi.ResetOpenAPI()
		objects, err = attempt(t, request)
	}
	if t.Denial() != nil {
		return nil, t.Denial() // libraries hide it behind an error of their own
	}
	return objects, err
}

func attempt(t *tree.Tree, request *Request) (objects []json.RawMessage, err error) {
	dir := path.Clean("/" + request.Path)
	if !t.IsDir(dir) {
		return nil, &call.Failure{
			Code:    codePathNotFound,
			Message: fmt.Sprintf("kustomization path not found: no directory %q in the source", dir[1:]),
		}
	}
	root, err := readRoot(t, dir)
	if err != nil {
		return nil, err
	}
	resources, err := straight(t, dir, root, &request.Transformations)
	if resources == nil && err == nil && t.Denial() == nil {
		t.Restart()
		resources, err = customized(t, dir, root, &request.Transformations)
	}
	if err == nil {
		objects, err = encode(resources)
	}
	if err != nil && root.generated && t.Denial() == nil && !errors.As(err, new(*tree.Denial)) {
		// kustomize says of a file that does not parse that it is not a directory.
		if broken := findUndecodable(t, dir, root); broken != nil {
			return nil, broken
		}
	}
	return objects, err
}

// customized builds with kustomize.
func customized(t *tree.Tree, dir string, root *root, x *Transformations) ([]*resource.Resource, error) {
	if err := root.transform(t, dir, x); err != nil {
		return nil, err
	}
	data, err := yaml.Marshal(root.kustomization)
	if err != nil {
		return nil, err
	}
	defer t.Put(path.Join(dir, root.file), data)()
	options := &krusty.Options{
		LoadRestrictions: types.LoadRestrictionsNone, // the tree is the restriction
		PluginConfig:     types.DisabledPluginConfig(),
	}
	resources, err := krusty.MakeKustomizer(options).Run(tree.FileSystem{Tree: t}, dir)
	if err != nil {
		return nil, fmt.Errorf("kustomize build failed: %w", err)
	}
	return resources.Resources(), nil
}

var once sync.Once

// isolate takes away what kustomize might use to leave the tree. It has no switches for this: it asks
// http.DefaultTransport for remote files and runs git for remote directories. The gate refuses both
// by name; this is the second wall.
func isolate() {
	once.Do(func() {
		http.DefaultTransport = noNetwork{}
		os.Setenv("PATH", "")
	})
}

type noNetwork struct{}

func (noNetwork) RoundTrip(request *http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("%s is remote: a build has no network access", request.URL)
}

func seen(t *tree.Tree, suspects []string) []string {
	encrypted := []string{}
	for _, name := range suspects {
		if t.Seen(name) {
			encrypted = append(encrypted, name)
		}
	}
	sort.Strings(encrypted)
	return encrypted
}

func explain(err error, encrypted []string) error {
	var failure *call.Failure
	var denial *tree.Denial
	switch {
	case errors.As(err, &failure):
	case errors.As(err, &denial):
		failure = &call.Failure{Code: codeBuildFailed, Message: denial.Error()}
	default:
		failure = &call.Failure{Code: codeBuildFailed, Message: withoutContent(err.Error())}
	}
	failure.Detail, _ = json.Marshal(map[string][]string{"encrypted": encrypted})
	return failure
}

// dumps come before content of manifests in kustomize's error messages.
var dumps = []string{
	"\n**** Too many possible", " in object {", " in object map[",
	" in object apiVersion", " in object kind", " for the following resource:", "roleRef cannot be found in",
}

// pluginConfig is the configuration of a plugin, patches included, amid a message.
var pluginConfig = regexp.MustCompile("(?s) with config: `.*`")

const maxMessage = 2000

// withoutContent keeps Secrets out of messages, and messages readable.
func withoutContent(message string) string {
	message = pluginConfig.ReplaceAllString(message, "")
	for _, dump := range dumps {
		if head, _, found := strings.Cut(message, dump); found {
			message = head
		}
	}
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	return strings.TrimSpace(message)
}
