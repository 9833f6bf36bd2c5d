package images

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"

	"penstock.dev/engine/internal/call"
)

const (
	maxTemplate = 64 << 10
	maxMessage  = 64 << 10
	dockerHub   = "index.docker.io"
)

// MessageRequest asks for the message of a commit. Without Files it is only seen whether the
// template can be read.
type MessageRequest struct {
	Template  string            `json:"template"`
	Values    map[string]string `json:"values"`
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Files     []File            `json:"files"`
	Images    map[string]Image  `json:"images"`
	Check     bool              `json:"check"`
}

// MessageResponse has the message.
type MessageResponse struct {
	Message string `json:"message"`
}

// Message is an operation: a MessageRequest becomes a MessageResponse.
func Message(_ context.Context, in []byte) ([]byte, error) {
	var request MessageRequest
	if err := json.Unmarshal(in, &request); err != nil {
		return nil, fmt.Errorf("reading the request: %w", err)
	}
	if len(request.Template) > maxTemplate {
		return nil, invalid(fmt.Errorf("it has more than %d bytes", maxTemplate))
	}
	parsed, err := template.New("message").Funcs(functions()).Parse(request.Template)
	if err != nil {
		return nil, invalid(err)
	}
	if request.Check {
		return json.Marshal(MessageResponse{})
	}
	var text limited
	if err := parsed.Execute(&text, dataOf(&request)); err != nil {
		return nil, invalid(err)
	}
	return json.Marshal(MessageResponse{Message: text.String()})
}

func invalid(err error) error {
	return &call.Failure{Code: "TemplateInvalid", Message: err.Error()}
}

// functions are Sprig's for texts, without those that look at the machine, at the clock's zone or at
// the network, or that make keys.
func functions() template.FuncMap {
	found := sprig.HermeticTxtFuncMap()
	for name := range found {
		if strings.HasPrefix(name, "gen") || strings.Contains(strings.ToLower(name), "bcrypt") {
			delete(found, name)
		}
	}
	for _, name := range []string{"derivePassword", "htpasswd", "env", "expandenv", "getHostByName"} {
		delete(found, name)
	}
	return found
}

// limited is a text that ends.
type limited struct{ strings.Builder }

func (l *limited) Write(text []byte) (int, error) {
	if l.Len()+len(text) > maxMessage {
		return 0, errors.New("the message has more than 64 KiB")
	}
	return l.Builder.Write(text)
}

// data is what a template sees; its names and those of its fields and methods are Flux's.
type data struct {
	AutomationObject namespacedName
	Changed          changed
	Updated          updated
	Values           map[string]string
}

type namespacedName struct{ Namespace, Name string }

func (n namespacedName) String() string { return n.Namespace + "/" + n.Name }

// objectIdentifier names an object in a file.
type objectIdentifier struct{ APIVersion, Kind, Namespace, Name string }

func (o objectIdentifier) String() string {
	if o.Namespace == "" {
		return o.Kind + "/" + o.Name
	}
	return o.Kind + "/" + o.Namespace + "/" + o.Name
}

type change struct{ OldValue, NewValue, Setter string }

type objectChanges map[objectIdentifier][]change

// changed is what was changed, by file and object.
type changed struct {
	FileChanges map[string]objectChanges
	ImageResult updated
	ordered     []located
}

type located struct {
	file   string
	object objectIdentifier
	change change
}

// Changes returns every change once.
func (c changed) Changes() []change {
	seen, found := map[change]bool{}, []change{}
	for _, each := range c.ordered {
		if !seen[each.change] {
			seen[each.change] = true
			found = append(found, each.change)
		}
	}
	return found
}

// Objects returns the changes by object, whatever the file.
func (c changed) Objects() objectChanges {
	found := objectChanges{}
	for _, each := range c.ordered {
		found[each.object] = append(found[each.object], each.change)
	}
	return found
}

// imageRef is an image that was written, with the policy that chose it. Its methods return what those
// of Flux's update.ImageRef do (image-automation-controller, internal/update/result.go).
type imageRef struct {
	image     Image
	Namespace string
	PolicyRef string
}

func (i imageRef) String() string { return i.image.String() }

// Repository returns the name without its registry, with what is implied, such as "library/nginx".
func (i imageRef) Repository() string {
	_, repository := i.parts()
	return repository
}

// Registry returns the host, "index.docker.io" if the name has none.
func (i imageRef) Registry() string {
	registry, _ := i.parts()
	return registry
}

// Name returns the reference with all that is implied.
func (i imageRef) Name() string {
	registry, repository := i.parts()
	if i.image.Digest != "" {
		return registry + "/" + repository + "@" + i.image.Digest
	}
	return registry + "/" + repository + ":" + i.image.Tag
}

// Identifier returns the digest if there is one, else the tag.
func (i imageRef) Identifier() string {
	if i.image.Digest != "" {
		return i.image.Digest
	}
	return i.image.Tag
}

func (i imageRef) parts() (registry, repository string) {
	first, rest, found := strings.Cut(i.image.Name, "/")
	if !found || first != "localhost" && !strings.ContainsAny(first, ".:") {
		first, rest = dockerHub, i.image.Name
	}
	if first == "docker.io" {
		first = dockerHub
	}
	if first == dockerHub && !strings.Contains(rest, "/") {
		rest = "library/" + rest
	}
	return first, rest
}

// Policy returns the policy that chose the image.
func (i imageRef) Policy() namespacedName {
	return namespacedName{Namespace: i.Namespace, Name: i.PolicyRef}
}

type fileResult struct {
	Objects map[objectIdentifier][]imageRef
}

// updated is the older form of the same: images, by file and object.
type updated struct {
	Files   map[string]fileResult
	ordered []imageRef
}

// Images returns every image once.
func (u updated) Images() []imageRef {
	seen, found := map[imageRef]bool{}, []imageRef{}
	for _, each := range u.ordered {
		if !seen[each] {
			seen[each] = true
			found = append(found, each)
		}
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].String() < found[j].String() })
	return found
}

// Objects returns the images by object, whatever the file.
func (u updated) Objects() map[objectIdentifier][]imageRef {
	found := map[objectIdentifier][]imageRef{}
	for _, file := range u.Files {
		for object, images := range file.Objects {
			found[object] = append(found[object], images...)
		}
	}
	return found
}

func dataOf(request *MessageRequest) data {
	result := changed{FileChanges: map[string]objectChanges{}}
	older := updated{Files: map[string]fileResult{}}
	for _, file := range request.Files {
		changes, images := objectChanges{}, map[objectIdentifier][]imageRef{}
		for _, each := range file.Changes {
			object := objectIdentifier(each.Object)
			made := change{OldValue: each.Old, NewValue: each.New, Setter: each.Setter}
			changes[object] = append(changes[object], made)
			result.ordered = append(result.ordered, located{file.Path, object, made})
			if ref, known := refOf(each.Setter, request.Images); known {
				images[object] = append(images[object], ref)
				older.ordered = append(older.ordered, ref)
			}
		}
		result.FileChanges[file.Path] = changes
		older.Files[file.Path] = fileResult{Objects: images}
	}
	result.ImageResult = older
	values := request.Values
	if values == nil {
		values = map[string]string{}
	}
	return data{
		AutomationObject: namespacedName{Namespace: request.Namespace, Name: request.Name},
		Changed:          result, Updated: older, Values: values,
	}
}

func refOf(setter string, images map[string]Image) (imageRef, bool) {
	parts := strings.SplitN(setter, ":", 3)
	if len(parts) < 2 {
		return imageRef{}, false
	}
	image, known := images[parts[0]+":"+parts[1]]
	return imageRef{image: image, Namespace: parts[0], PolicyRef: parts[1]}, known
}
