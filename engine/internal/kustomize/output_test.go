package kustomize

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/provider"
)

// Pieces of scalars that YAML has opinions about, and what may stand around a field.
var (
	pieces = []string{
		"a", "b", " ", "  ", "\n", "\t", "#", ":", "- ", "?", "'", "\\", "%", "@", "`", "|", ">", "&", "*", "!", "{",
		"}", "[", "]", ",", "é", "\u00a0", "\u2028", "\u0085", "\ufeff", "😀", "1", "0", "e", ".", "_", "~", "null",
		"true", "---", "...", "0x", "=", "<<", "\r", "\x07", "\"", "2001-01-01", "\x7f", "\u200b",
	}
	before = []string{"", "# head\n", "# a\n\n# b\n", "z: &q 1\ny: *q\n"}
	after  = []string{
		"", "# foot\n", "\n\n# foot\n", "w: # c\n- a # d\n# e\n-  # f\n  x: y\n", "\n\n",
		"l:\n  - |\n    a\n    b # no\n  - >\n    x\n    y\n  - [1, {a: b}, # c\n   c]\n",
	}
)

func TestObjectsAreEncodedAsKustomizeEncodesThem(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 9))
	factory := provider.NewDefaultDepProvider().GetResourceFactory()
	decoded := 0
	for range 10_000 {
		text := randomObject(random)
		resources, err := factory.SliceFromBytes([]byte(text))
		if err != nil || len(resources) != 1 {
			continue
		}
		decoded++
		got, gotErr := encodeOne(resources[0])
		want, wantErr := resources[0].MarshalJSON()
		if (gotErr == nil) != (wantErr == nil) || gotErr == nil && string(got) != string(want) {
			t.Errorf("%q\n%s %v\n%s %v", text, got, gotErr, want, wantErr)
		}
	}
	if decoded < 1000 {
		t.Errorf("only %d of the random objects were YAML at all", decoded)
	}
}

func randomObject(random *rand.Rand) string {
	var scalar strings.Builder
	for range random.IntN(6) {
		scalar.WriteString(pieces[random.IntN(len(pieces))])
	}
	s := scalar.String()
	block := strings.ReplaceAll(s, "\n", "\n  ")
	styles := []string{
		"v: " + s + "\n", "v: '" + strings.ReplaceAll(s, "'", "''") + "'\n", fmt.Sprintf("v: %q\n", s),
		"v: |\n  " + block + "\n", "v: |+\n  " + block + "\n\n", "v: >-\n  " + block + "\n", "v: {x: " + s + "}\n",
	}
	return before[random.IntN(len(before))] + "apiVersion: v1\nkind: X\nmetadata: {name: a}\n" +
		styles[random.IntN(len(styles))] + after[random.IntN(len(after))]
}
