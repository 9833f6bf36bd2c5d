package tree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Footprint is what a build depends on in its mounts: the questions that it asked, and a digest of
// the answers. A build of other mounts that answer the same has the same result.
type Footprint struct {
	// Questions are joined by NUL, which no path contains.
	Questions string `json:"questions"`
	Digest    string `json:"digest"`
}

// The first byte of a question says what was asked about the path that follows.
const (
	askKind    = "k" // what the path is
	askContent = "c" // what the file holds
	askEntries = "e" // what the directory lists
)

const separator = "\x00"

// Footprint describes what was asked of the tree until now, and before that by the questions of an
// earlier Footprint, if there was one. It reads the mounts again, without the files laid over them.
func (t *Tree) Footprint(ctx context.Context, mounts map[string]string, earlier string) (Footprint, error) {
	asked := maps.Clone(t.asked)
	if earlier != "" {
		for question := range strings.SplitSeq(earlier, separator) {
			asked[question] = struct{}{}
		}
	}
	return footprint(ctx, mounts, slices.Sorted(maps.Keys(asked)))
}

// Answer asks the questions of a Footprint of other mounts.
func Answer(ctx context.Context, mounts map[string]string, questions string) (Footprint, error) {
	return footprint(ctx, mounts, strings.Split(questions, separator))
}

func footprint(ctx context.Context, mounts map[string]string, questions []string) (Footprint, error) {
	t, err := Open(ctx, mounts, nil, DefaultLimits)
	if err != nil {
		return Footprint{}, err
	}
	defer t.Close()
	hash := sha256.New()
	for _, question := range questions {
		answer := sha256.Sum256([]byte(t.answer(question)))
		fmt.Fprintf(hash, "%d\n%s%s", len(question), question, answer)
		if t.denial != nil {
			return Footprint{}, t.denial
		}
	}
	return Footprint{
		Questions: strings.Join(questions, separator),
		Digest:    hex.EncodeToString(hash.Sum(nil)),
	}, nil
}

// answer starts with a word that tells a failure from content.
func (t *Tree) answer(question string) string {
	if question == "" {
		return ""
	}
	name := question[1:]
	switch question[:1] {
	case askContent:
		data, err := t.ReadFile(name)
		if err != nil {
			return "none"
		}
		return "file " + string(data)
	case askEntries:
		entries, err := t.List(name)
		if err != nil {
			return "none"
		}
		var text strings.Builder
		for _, entry := range entries {
			fmt.Fprintf(&text, "%q %t\n", entry.Name, entry.IsDir)
		}
		return "entries " + text.String()
	default:
		return fmt.Sprintf("kind %t %t", t.IsDir(name), t.IsFile(name))
	}
}

func (t *Tree) ask(what, name string) { t.asked[what+name] = struct{}{} }
