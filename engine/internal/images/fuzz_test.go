package images

import (
	"bytes"
	"testing"
)

// FuzzMarkers looks for files that end the process, whose lines come to more or fewer, or that are
// not up to date after they were brought up to date.
func FuzzMarkers(f *testing.F) {
	for _, each := range golden {
		f.Add([]byte(each[0]))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		changed, changes, _, err := update(content, chosen)
		if err != nil || len(changes) == 0 {
			return
		}
		if bytes.Count(changed, []byte("\n")) != bytes.Count(content, []byte("\n")) {
			t.Fatalf("the number of lines differs: %q became %q", content, changed)
		}
		again, more, _, err := update(changed, chosen)
		if err != nil || len(more) > 0 {
			t.Fatalf("%q became %q, then %q (%v)", content, changed, again, err)
		}
	})
}
