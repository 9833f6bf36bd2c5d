package images

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

const largeDocument = 1 << 20

// update returns the content with the marked values replaced: no byte beside them changes. Without
// changes it returns no content. It also returns the markers that are beside a value.
func update(content []byte, images map[string]Image) ([]byte, []Change, marks, error) {
	var edits []edit
	seen := newMarks()
	line := 0
	for _, document := range documents(content) {
		text := content[document.start:document.end]
		if bytes.Contains(text, []byte(marker)) {
			found, at, err := inParts(text, images)
			if err != nil {
				return nil, nil, seen, fmt.Errorf("the document at line %d: %w", line+1, err)
			}
			seen.add(at, document.start)
			for _, one := range found {
				one.start, one.end = one.start+document.start, one.end+document.start
				edits = append(edits, one)
			}
		}
		line += bytes.Count(text, []byte("\n"))
	}
	if len(edits) == 0 {
		return nil, nil, seen, nil
	}
	sort.SliceStable(edits, func(i, j int) bool { return edits[i].start < edits[j].start })
	var result bytes.Buffer
	changes := make([]Change, 0, len(edits))
	at := 0
	for _, one := range edits {
		result.Write(content[at:one.start])
		result.WriteString(one.text)
		at = one.end
		changes = append(changes, one.change)
	}
	result.Write(content[at:])
	return result.Bytes(), changes, seen, nil
}

// edit replaces the bytes from start to end.
type edit struct {
	start, end int
	text       string
	change     Change
}

type span struct{ start, end int }

// documents splits a stream at its document markers, so that only what has a marker is parsed. A
// line that begins with three dashes ends a document wherever it stands (YAML 1.2, 9.1.2).
func documents(content []byte) []span {
	var found []span
	start, at := 0, 0
	for at < len(content) {
		end := len(content)
		if newline := bytes.IndexByte(content[at:], '\n'); newline >= 0 {
			end = at + newline + 1
		}
		if at > start && separates(content[at:end]) {
			found = append(found, span{start, at})
			start = at
		}
		at = end
	}
	return append(found, span{start, len(content)})
}

func separates(line []byte) bool {
	return bytes.HasPrefix(line, []byte("---")) && (len(line) == 3 || bytes.IndexByte([]byte(" \t\r\n"), line[3]) >= 0)
}

func inDocument(text []byte, images map[string]Image) ([]edit, marks, error) {
	source := source{text: text, lines: lines(text)}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var edits []edit
	seen := newMarks()
	for {
		var node yaml.Node
		err := decoder.Decode(&node)
		if errors.Is(err, io.EOF) {
			return edits, seen, nil
		}
		if err != nil {
			return nil, seen, fmt.Errorf("it is not YAML: %w", err)
		}
		finder := finder{source: source, images: images, object: identity(&node), seen: seen}
		if err := finder.visit(&node); err != nil {
			return nil, seen, err
		}
		edits = append(edits, finder.edits...)
	}
}

// inParts looks through a large document one entry of its root at a time, because a tree of nodes
// takes fifty times its text. That counts only if every part is YAML by itself: else a part may lie
// within a text or a list that another one began, or name an anchor of another, and the document is
// looked through as a whole.
func inParts(document []byte, images map[string]Image) ([]edit, marks, error) {
	if len(document) < largeDocument {
		return inDocument(document, images)
	}
	var edits []edit
	var object Object
	seen := newMarks()
	for _, part := range parts(document) {
		text := document[part.start:part.end]
		var node yaml.Node
		if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&node); err != nil && !errors.Is(err, io.EOF) {
			return inDocument(document, images)
		}
		object.add(identity(&node))
		if !bytes.Contains(text, []byte(marker)) {
			continue
		}
		found, at, err := inDocument(text, images)
		if err != nil {
			return inDocument(document, images)
		}
		seen.add(at, part.start)
		for _, one := range found {
			one.start, one.end = one.start+part.start, one.end+part.start
			edits = append(edits, one)
		}
	}
	for i := range edits {
		edits[i].change.Object = object
	}
	return edits, seen, nil
}

// parts splits a document before each line that begins with neither a blank nor a comment.
func parts(document []byte) []span {
	var found []span
	start, at := 0, 0
	for at < len(document) {
		if at > start && bytes.IndexByte([]byte(" \t#\r\n"), document[at]) < 0 {
			found = append(found, span{start, at})
			start = at
		}
		newline := bytes.IndexByte(document[at:], '\n')
		if newline < 0 {
			break
		}
		at += newline + 1
	}
	return append(found, span{start, len(document)})
}

// add takes over what is not known yet.
func (o *Object) add(other Object) {
	for _, each := range [][2]*string{
		{&o.APIVersion, &other.APIVersion}, {&o.Kind, &other.Kind}, {&o.Namespace, &other.Namespace}, {&o.Name, &other.Name},
	} {
		if *each[0] == "" {
			*each[0] = *each[1]
		}
	}
}

type finder struct {
	source source
	images map[string]Image
	object Object
	edits  []edit
	seen   marks
}

func (f *finder) visit(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		return f.scalar(node)
	}
	if node.Kind == yaml.AliasNode {
		// the value of an alias changes with its anchor
		if setter := setterOf(node.LineComment); setter != "" {
			f.seen.note(f.source, node, setter)
		}
		return nil
	}
	for i, child := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 {
			continue // the key of a field is never set
		}
		if err := f.visit(child); err != nil {
			return err
		}
	}
	return nil
}

// scalar notes the edit of a value whose comment names a policy that has an image.
func (f *finder) scalar(node *yaml.Node) error {
	setter := setterOf(node.LineComment)
	if setter == "" || node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return nil
	}
	f.seen.note(f.source, node, setter)
	value, known := value(setter, f.images)
	if !known || value == node.Value {
		return nil
	}
	place, err := f.source.scalar(node)
	if err != nil {
		return fmt.Errorf("line %d of it: %w", node.Line, err)
	}
	text, err := written(value, node)
	if err != nil {
		return fmt.Errorf("line %d of it: %w", node.Line, err)
	}
	f.edits = append(f.edits, edit{start: place.start, end: place.end, text: text, change: Change{
		Object: f.object, Setter: setter, Old: node.Value, New: value,
	}})
	return nil
}

// setterOf returns the text of a marker, empty if a comment is none.
func setterOf(comment string) string {
	text := strings.TrimSpace(strings.TrimLeft(comment, "#"))
	if !strings.HasPrefix(text, "{") || !strings.Contains(text, marker) {
		return ""
	}
	var found map[string]any
	if json.NewDecoder(strings.NewReader(text)).Decode(&found) != nil {
		return ""
	}
	setter, _ := found[marker].(string)
	return setter
}

// value returns what a marker asks for. A policy without an image, or without the digest that is
// asked for, is unknown.
func value(setter string, images map[string]Image) (string, bool) {
	parts := strings.SplitN(setter, ":", 3)
	if len(parts) < 2 {
		return "", false
	}
	image, known := images[parts[0]+":"+parts[1]]
	if !known {
		return "", false
	}
	if len(parts) == 2 {
		return image.String(), true
	}
	found, known := map[string]string{"tag": image.Tag, "name": image.Name, "digest": image.Digest}[parts[2]]
	return found, known && found != ""
}

// written returns a value in the style that the old one has. A plain one that would be read as
// something else than a string is quoted.
func written(value string, old *yaml.Node) (string, error) {
	if strings.ContainsAny(value, "'\"\\\n\r\t ") || !utf8.ValidString(value) {
		return "", fmt.Errorf("%q is not an image", value)
	}
	switch {
	case old.Style&yaml.SingleQuotedStyle != 0:
		return "'" + value + "'", nil
	case old.Style&yaml.DoubleQuotedStyle != 0, !plain(value):
		return `"` + value + `"`, nil
	default:
		return value, nil
	}
}

func plain(value string) bool {
	first := value[0]
	word := first >= 'a' && first <= 'z' || first >= 'A' && first <= 'Z' || first >= '0' && first <= '9' || first == '_'
	node := yaml.NewScalarRNode(value).YNode()
	node.Tag = ""
	return word && !strings.ContainsAny(value, "[]{},#") && !yaml.IsYaml1_1NonString(node) && node.ShortTag() == yaml.NodeTagString
}

func identity(node *yaml.Node) Object {
	if node.Kind == yaml.DocumentNode && len(node.Content) == 1 {
		node = node.Content[0]
	}
	metadata := child(node, "metadata")
	return Object{
		APIVersion: text(child(node, "apiVersion")), Kind: text(child(node, "kind")),
		Namespace: text(child(metadata, "namespace")), Name: text(child(metadata, "name")),
	}
}

func child(node *yaml.Node, name string) *yaml.Node {
	if node == nil || node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return node.Content[i+1]
		}
	}
	return nil
}

func text(node *yaml.Node) string {
	if node == nil || node.Kind != yaml.ScalarNode {
		return ""
	}
	return node.Value
}
