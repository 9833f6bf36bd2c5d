package helm

import (
	"bytes"
	"encoding/base64"
	"errors"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/kio"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// fileAnnotation is what Helm adds to every object while post-renderers run (pkg/action/action.go).
const fileAnnotation = "postrenderer.helm.sh/postrender-filename"

// Carriers names what has encrypted Secrets decrypted as they enter the cluster
// (toolkit/decrypt/envelope.py). Without a label nothing is exchanged.
type Carriers struct {
	Label  string `json:"label"`  // opts a Secret in
	Value  string `json:"value"`  // of the label
	Key    string `json:"key"`    // of the data, with the encrypted manifest
	OptOut string `json:"optOut"` // annotation: "disabled" leaves a Secret as it is
	Marker string `json:"marker"` // begins every encrypted value
}

// exchange replaces every encrypted Secret by its carrier, and opts in those with encrypted documents
// as values. It comes before everything else that changes objects: what authenticates a document
// covers its metadata as well.
func (c *Carriers) exchange(text []byte) ([]byte, error) {
	if c.Label == "" {
		return text, nil
	}
	// The reader would note the index of each object in its annotations.
	objects, err := (&kio.ByteReader{Reader: bytes.NewReader(text), OmitReaderAnnotations: true}).Read()
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		if object.GetApiVersion() == "v1" && object.GetKind() == "Secret" && !c.optedOut(object) {
			if err := c.optIn(object); err != nil {
				return nil, err
			}
		}
	}
	exchanged, err := kio.StringAll(objects)
	return []byte(exchanged), err
}

func (c *Carriers) optedOut(secret *yaml.RNode) bool {
	return strings.EqualFold(secret.GetAnnotations()[c.OptOut], "disabled")
}

func (c *Carriers) optIn(secret *yaml.RNode) error {
	if secret.Field("sops") != nil {
		if err := c.carry(secret); err != nil {
			return err
		}
	} else if !c.holdsDocument(secret) {
		return nil
	}
	return secret.PipeE(yaml.SetLabel(c.Label, c.Value))
}

// carry puts a Secret that is encrypted as a whole into the data of one that has its metadata alone.
func (c *Carriers) carry(secret *yaml.RNode) error {
	document := secret.Copy()
	if err := document.PipeE(yaml.ClearAnnotation(fileAnnotation)); err != nil {
		return err
	}
	if err := yaml.ClearEmptyAnnotations(document); err != nil {
		return err
	}
	written, err := document.String()
	if err != nil {
		return err
	}
	for _, field := range []string{"sops", "data", "stringData"} {
		if err := secret.PipeE(yaml.Clear(field)); err != nil {
			return err
		}
	}
	if plain, err := secret.String(); err != nil || strings.Contains(plain, c.Marker) {
		return errors.New("more than the data of a Secret of the chart are encrypted: " +
			"encrypt it with encrypted_regex: ^(data|stringData)$")
	}
	encoded := yaml.NewStringRNode(base64.StdEncoding.EncodeToString([]byte(written)))
	return secret.PipeE(yaml.LookupCreate(yaml.MappingNode, "data"), yaml.SetField(c.Key, encoded))
}

// holdsDocument tells whether a value of a Secret looks like an encrypted document. Whether it is one,
// the webhook finds out.
func (c *Carriers) holdsDocument(secret *yaml.RNode) bool {
	for _, value := range values(secret, "data") {
		plain, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(value), ""))
		if err == nil && c.isDocument(string(plain)) {
			return true
		}
	}
	return slices.ContainsFunc(values(secret, "stringData"), c.isDocument)
}

func (c *Carriers) isDocument(text string) bool {
	return strings.Contains(text, c.Marker) && strings.Contains(text, "sops")
}

// values returns what the entries of a field hold, as far as it is a mapping.
func values(object *yaml.RNode, field string) []string {
	found := object.Field(field)
	if found == nil || found.Value.YNode().Kind != yaml.MappingNode {
		return nil
	}
	var texts []string
	_ = found.Value.VisitFields(func(entry *yaml.MapNode) error {
		texts = append(texts, yaml.GetValue(entry.Value))
		return nil
	})
	return texts
}
