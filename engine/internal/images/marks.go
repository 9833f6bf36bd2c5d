package images

import (
	"bytes"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// marks are the markers beside values: where their lines begin, and the policies that they name.
type marks struct {
	lines    map[int]bool
	policies map[string]bool
}

func newMarks() marks {
	return marks{lines: map[int]bool{}, policies: map[string]bool{}}
}

// add takes over the marks of a part of a text.
func (m marks) add(other marks, start int) {
	for line := range other.lines {
		m.lines[line+start] = true
	}
	for policy := range other.policies {
		m.policies[policy] = true
	}
}

func (m marks) note(source source, node *yaml.Node, setter string) {
	if node.Line >= 1 && node.Line <= len(source.lines) {
		m.lines[source.lines[node.Line-1]] = true
	}
	if parts := strings.SplitN(setter, ":", 3); len(parts) > 1 {
		m.policies[parts[0]+":"+parts[1]] = true
	}
}

// misplaced returns the numbers of the lines with a marker that is not beside a value, in order. A
// line that is a comment as a whole counts only if it holds nothing but the marker.
func misplaced(content []byte, beside map[int]bool) []int {
	var found []int
	starts := lines(content)
	for at := 0; at < len(content); {
		next := bytes.Index(content[at:], []byte(marker))
		if next < 0 {
			break
		}
		at += next
		number, exact := slices.BinarySearch(starts, at)
		if !exact {
			number--
		}
		start, end := starts[number], len(content)
		if number+1 < len(starts) {
			end = starts[number+1]
		}
		if !beside[start] && isMarked(string(content[start:end])) {
			found = append(found, number+1)
		}
		at = end
	}
	return found
}

// isMarked tells whether a line ends with a comment that is a marker.
func isMarked(line string) bool {
	text := strings.TrimSpace(line)
	hash := strings.LastIndexByte(text, '#')
	if hash < 0 || setterOf(text[hash:]) == "" {
		return false
	}
	return hash == 0 || text[0] != '#'
}
