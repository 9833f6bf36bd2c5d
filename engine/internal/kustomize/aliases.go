package kustomize

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// maxExpanded is how many values a document may have once its aliases are replaced by what they
// stand for. kustomize replaces them; 485 bytes can become gigabytes.
const maxExpanded = 200_000

var errContainsItself = errors.New("an alias stands for something that contains it")

// checkInline refuses YAML whose aliases would explode. What is not YAML is left to its reader.
func checkInline(text string) error {
	if !mayAlias(text) {
		return nil
	}
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var document yaml.Node
		if err := decoder.Decode(&document); err == io.EOF || err != nil {
			return nil
		}
		size, err := expansion{}.size(&document)
		if err != nil {
			return err
		}
		if size > maxExpanded {
			return fmt.Errorf("its YAML aliases expand to more than %d values", maxExpanded)
		}
	}
}

// mayAlias is a cheap test that most files fail: an alias needs an anchor, "&" at the start of a word.
func mayAlias(text string) bool {
	if !strings.Contains(text, "*") {
		return false
	}
	for rest := text; ; {
		i := strings.IndexByte(rest, '&')
		if i < 0 || i+1 == len(rest) {
			return false
		}
		startsWord := i == 0 || strings.IndexByte(" \t\r\n,[{:-?", rest[i-1]) >= 0
		if startsWord && strings.IndexByte(" \t\r\n&", rest[i+1]) < 0 {
			return true
		}
		rest = rest[i+1:]
	}
}

// expansion remembers the sizes of nodes; -1 marks those that are being measured.
type expansion map[*yaml.Node]int

func (e expansion) size(node *yaml.Node) (int, error) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch known, ok := e[node]; {
	case ok && known < 0:
		return 0, errContainsItself
	case ok:
		return known, nil
	}
	e[node] = -1
	total := 1
	for _, child := range node.Content {
		size, err := e.size(child)
		if err != nil {
			return 0, err
		}
		// Stop counting before the sum can overflow.
		if total += size; total > maxExpanded {
			total = maxExpanded + 1
		}
	}
	e[node] = total
	return total, nil
}
