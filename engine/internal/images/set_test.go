package images

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"penstock.dev/engine/internal/call"
)

var chosen = map[string]Image{
	"apps:web":  {Name: "registry.example.com:5000/org/web", Tag: "v2.0.0"},
	"apps:pin":  {Name: "ghcr.io/org/pin", Tag: "2.0.0", Digest: "sha256:" + strings.Repeat("ab", 32)},
	"apps:odd":  {Name: "ghcr.io/org/odd", Tag: "1.10"},
	"apps:same": {Name: "ghcr.io/org/same", Tag: "1"},
	"apps:word": {Name: "yes", Tag: "on"},
}

const pinned = "ghcr.io/org/pin:2.0.0@sha256:abababababababababababababababababababababababababababababababab"

// Each case is a file before and after; what is not named stays byte for byte.
var golden = map[string][2]string{
	"a whole image": {
		"kind: Pod\nspec:\n  containers:\n  - image: web:1 # {\"$imagepolicy\": \"apps:web\"}\n",
		"kind: Pod\nspec:\n  containers:\n  - image: registry.example.com:5000/org/web:v2.0.0 # {\"$imagepolicy\": \"apps:web\"}\n",
	},
	"Helm values in parts": {
		"image:\n  repository: old   # {\"$imagepolicy\": \"apps:pin:name\"}\n  tag:   '1'\t# {\"$imagepolicy\": \"apps:pin:tag\"}\n  digest: \"\" # {\"$imagepolicy\": \"apps:pin:digest\"}\n",
		"image:\n  repository: ghcr.io/org/pin   # {\"$imagepolicy\": \"apps:pin:name\"}\n  tag:   '2.0.0'\t# {\"$imagepolicy\": \"apps:pin:tag\"}\n  digest: \"sha256:abababababababababababababababababababababababababababababababab\" # {\"$imagepolicy\": \"apps:pin:digest\"}\n",
	},
	"a digest with the whole image": {
		"image: a:1 # {\"$imagepolicy\": \"apps:pin\"}\n", "image: " + pinned + " # {\"$imagepolicy\": \"apps:pin\"}\n",
	},
	"a digest that a policy does not have": {
		"digest: sha256:00 # {\"$imagepolicy\": \"apps:web:digest\"}\ntag: v1 # {\"$imagepolicy\": \"apps:web:tag\"}",
		"digest: sha256:00 # {\"$imagepolicy\": \"apps:web:digest\"}\ntag: v2.0.0 # {\"$imagepolicy\": \"apps:web:tag\"}",
	},
	"a tag that would be read as a number": {
		"tag: 1.9.0 # {\"$imagepolicy\": \"apps:odd:tag\"}\n", "tag: \"1.10\" # {\"$imagepolicy\": \"apps:odd:tag\"}\n",
	},
	"words that would be read as true": {
		"a: b # {\"$imagepolicy\": \"apps:word:tag\"}\nc: d # {\"$imagepolicy\": \"apps:word:name\"}\n",
		"a: \"on\" # {\"$imagepolicy\": \"apps:word:tag\"}\nc: \"yes\" # {\"$imagepolicy\": \"apps:word:name\"}\n",
	},
	"comments, blanks and order": {
		"# head\nb: 1   # one\n\n\n# about a\na:    'x:1'    # {\"$imagepolicy\": \"apps:web\"} trailing\nc: [1,   2]\n# foot\n",
		"# head\nb: 1   # one\n\n\n# about a\na:    'registry.example.com:5000/org/web:v2.0.0'    # {\"$imagepolicy\": \"apps:web\"} trailing\nc: [1,   2]\n# foot\n",
	},
	"anchors, aliases and tags": {
		"a: &img !!str web:1 # {\"$imagepolicy\": \"apps:web\"}\nb: *img # {\"$imagepolicy\": \"apps:web\"}\n",
		"a: &img !!str registry.example.com:5000/org/web:v2.0.0 # {\"$imagepolicy\": \"apps:web\"}\nb: *img # {\"$imagepolicy\": \"apps:web\"}\n",
	},
	"lists": {
		"images:\n- web:1 # {\"$imagepolicy\": \"apps:web\"}\n-   \"web:1\" # {\"$imagepolicy\": \"apps:web\"}\n- web:1\n",
		"images:\n- registry.example.com:5000/org/web:v2.0.0 # {\"$imagepolicy\": \"apps:web\"}\n-   \"registry.example.com:5000/org/web:v2.0.0\" # {\"$imagepolicy\": \"apps:web\"}\n- web:1\n",
	},
	"several documents, of which one is damaged and has no marker": {
		"---\na: [\n---\nkind: A\nx: web:1 # {\"$imagepolicy\": \"apps:web:tag\"}\n...\n---\n# nothing\n--- # last\ny: web:1 # {\"$imagepolicy\": \"apps:web:tag\"}\n",
		"---\na: [\n---\nkind: A\nx: v2.0.0 # {\"$imagepolicy\": \"apps:web:tag\"}\n...\n---\n# nothing\n--- # last\ny: v2.0.0 # {\"$imagepolicy\": \"apps:web:tag\"}\n",
	},
	"CRLF": {
		"a: 1\r\nb: web:1 # {\"$imagepolicy\": \"apps:web:tag\"}\r\n---\r\nc: 'w' # {\"$imagepolicy\": \"apps:web:tag\"}\r\n",
		"a: 1\r\nb: v2.0.0 # {\"$imagepolicy\": \"apps:web:tag\"}\r\n---\r\nc: 'v2.0.0' # {\"$imagepolicy\": \"apps:web:tag\"}\r\n",
	},
	"a byte order mark and wide characters before": {
		"\ufeff# ü\n\"schlüssel €\": { ä: x, tag: v1 } # no marker\n\"ключ\": \"v1\" # {\"$imagepolicy\": \"apps:web:tag\"}\n",
		"\ufeff# ü\n\"schlüssel €\": { ä: x, tag: v1 } # no marker\n\"ключ\": \"v2.0.0\" # {\"$imagepolicy\": \"apps:web:tag\"}\n",
	},
	"what only looks like a marker": {
		"text: |\n  image: web:1 # {\"$imagepolicy\": \"apps:web\"}\na: 'x # {\"$imagepolicy\": \"apps:web\"}'\nb: v1 # $imagepolicy apps:web\nc: v1 # {\"$imagepolicy\": \"other:web\"}\nd: v1 # {\"$imagepolicy\": \"apps:web:none\"}\n",
		"",
	},
	"what is up to date": {"a: ghcr.io/org/same:1 # {\"$imagepolicy\": \"apps:same\"}\n", ""},
	"a block scalar":     {"a: |- # {\"$imagepolicy\": \"apps:web\"}\n  web:1\n", ""},
	"a block scalar whose marker stands in its text": {"a: |\n  web:1 # {\"$imagepolicy\": \"apps:web\"}\nb: >-\n  web:1 # {\"$imagepolicy\": \"apps:web\"}\n", ""},
	"a flow map on one line": {
		"image: {name: a, tag: v1} # {\"$imagepolicy\": \"apps:web:tag\"}\nother: [v1] # {\"$imagepolicy\": \"apps:web:tag\"}\n", "",
	},
	"a flow map on several lines": {
		"image: {\n  name: a, # {\"$imagepolicy\": \"apps:web:name\"}\n  tag: \"v1\", # {\"$imagepolicy\": \"apps:web:tag\"}\n  last: v1 # {\"$imagepolicy\": \"apps:web:tag\"}\n}\n",
		"image: {\n  name: registry.example.com:5000/org/web, # {\"$imagepolicy\": \"apps:web:name\"}\n  tag: \"v2.0.0\", # {\"$imagepolicy\": \"apps:web:tag\"}\n  last: v2.0.0 # {\"$imagepolicy\": \"apps:web:tag\"}\n}\n",
	},
	"a flow list on several lines": {
		"args: [\n  \"v1\", # {\"$imagepolicy\": \"apps:web:tag\"}\n  'v1' # {\"$imagepolicy\": \"apps:web:tag\"}\n]\n",
		"args: [\n  \"v2.0.0\", # {\"$imagepolicy\": \"apps:web:tag\"}\n  'v2.0.0' # {\"$imagepolicy\": \"apps:web:tag\"}\n]\n",
	},
	"JSON with markers as comments": {
		"{\n  \"kind\": \"Pod\",\n  \"image\": \"web:1\", # {\"$imagepolicy\": \"apps:pin\"}\n  \"x\": 1\n}\n",
		"{\n  \"kind\": \"Pod\",\n  \"image\": \"" + pinned + "\", # {\"$imagepolicy\": \"apps:pin\"}\n  \"x\": 1\n}\n",
	},
	"a digest behind a tag": {
		"image: \"web:1@sha256:00\" # {\"$imagepolicy\": \"apps:web\"}\nother: 'web:1@sha256:00' # {\"$imagepolicy\": \"apps:pin\"}\n",
		"image: \"registry.example.com:5000/org/web:v2.0.0\" # {\"$imagepolicy\": \"apps:web\"}\nother: '" + pinned + "' # {\"$imagepolicy\": \"apps:pin\"}\n",
	},
	"images of a Kustomization": {
		"kind: Kustomization\nimages:\n  - name: web # the one in the manifests\n    newName: old # {\"$imagepolicy\": \"apps:pin:name\"}\n    newTag: 1.0.0 # {\"$imagepolicy\": \"apps:pin:tag\"}\n    digest: sha256:00 # {\"$imagepolicy\": \"apps:pin:digest\"}\n",
		"kind: Kustomization\nimages:\n  - name: web # the one in the manifests\n    newName: ghcr.io/org/pin # {\"$imagepolicy\": \"apps:pin:name\"}\n    newTag: 2.0.0 # {\"$imagepolicy\": \"apps:pin:tag\"}\n    digest: sha256:abababababababababababababababababababababababababababababababab # {\"$imagepolicy\": \"apps:pin:digest\"}\n",
	},
	"tabs around a comment": {
		"a: v1\t#\t{\"$imagepolicy\": \"apps:web:tag\"}\t\nb: v1 #{\"$imagepolicy\":\"apps:web:tag\"}\n",
		"a: v2.0.0\t#\t{\"$imagepolicy\": \"apps:web:tag\"}\t\nb: v2.0.0 #{\"$imagepolicy\":\"apps:web:tag\"}\n",
	},
	"mixed line endings": {
		"a: v1 # {\"$imagepolicy\": \"apps:web:tag\"}\r\nb: v1 # {\"$imagepolicy\": \"apps:web:tag\"}\nc: v1 # {\"$imagepolicy\": \"apps:web:tag\"}\r\n\r\nd: 1\n",
		"a: v2.0.0 # {\"$imagepolicy\": \"apps:web:tag\"}\r\nb: v2.0.0 # {\"$imagepolicy\": \"apps:web:tag\"}\nc: v2.0.0 # {\"$imagepolicy\": \"apps:web:tag\"}\r\n\r\nd: 1\n",
	},
	"two markers on one value": {
		"a: v1 # {\"$imagepolicy\": \"apps:web:tag\"} # {\"$imagepolicy\": \"apps:pin:tag\"}\nb: v1 # {\"$imagepolicy\": \"apps:web:tag\", \"$imagepolicy\": \"apps:pin:tag\"}\n",
		"a: v2.0.0 # {\"$imagepolicy\": \"apps:web:tag\"} # {\"$imagepolicy\": \"apps:pin:tag\"}\nb: 2.0.0 # {\"$imagepolicy\": \"apps:web:tag\", \"$imagepolicy\": \"apps:pin:tag\"}\n",
	},
	"a marker on a line of its own": {
		"# {\"$imagepolicy\": \"apps:web:tag\"}\na: v1\n  # {\"$imagepolicy\": \"apps:web:tag\"}\n", "",
	},
	"a marker behind a key whose value follows": {
		"a: # {\"$imagepolicy\": \"apps:web:tag\"}\n  b: v1\nc: # {\"$imagepolicy\": \"apps:web:tag\"}\n- v1\n", "",
	},
	"an empty value": {
		"a: \"\" # {\"$imagepolicy\": \"apps:web:tag\"}\nb: '' # {\"$imagepolicy\": \"apps:web:tag\"}\n",
		"a: \"v2.0.0\" # {\"$imagepolicy\": \"apps:web:tag\"}\nb: 'v2.0.0' # {\"$imagepolicy\": \"apps:web:tag\"}\n",
	},
	"lists of maps and lists in lists": {
		"a:\n- - v1 # {\"$imagepolicy\": \"apps:web:tag\"}\n  - - \"v1\" # {\"$imagepolicy\": \"apps:web:tag\"}\n- image: web:1 # {\"$imagepolicy\": \"apps:web\"}\n  ? k\n  : v1 # {\"$imagepolicy\": \"apps:web:tag\"}\n",
		"a:\n- - v2.0.0 # {\"$imagepolicy\": \"apps:web:tag\"}\n  - - \"v2.0.0\" # {\"$imagepolicy\": \"apps:web:tag\"}\n- image: registry.example.com:5000/org/web:v2.0.0 # {\"$imagepolicy\": \"apps:web\"}\n  ? k\n  : v2.0.0 # {\"$imagepolicy\": \"apps:web:tag\"}\n",
	},
	"a very long line": {
		"a: {b: \"" + strings.Repeat("x", 100_000) + "\"}\nc: v1 " + strings.Repeat(" ", 100_000) + "# {\"$imagepolicy\": \"apps:web:tag\"}\n",
		"a: {b: \"" + strings.Repeat("x", 100_000) + "\"}\nc: v2.0.0 " + strings.Repeat(" ", 100_000) + "# {\"$imagepolicy\": \"apps:web:tag\"}\n",
	},
	"a byte order mark before the marked value": {
		"\ufeffa: v1 # {\"$imagepolicy\": \"apps:web:tag\"}\n---\nb: v1 # {\"$imagepolicy\": \"apps:web:tag\"}\n",
		"\ufeffa: v2.0.0 # {\"$imagepolicy\": \"apps:web:tag\"}\n---\nb: v2.0.0 # {\"$imagepolicy\": \"apps:web:tag\"}\n",
	},
	"no newline at the end": {
		"a: v1 # {\"$imagepolicy\": \"apps:web:tag\"}", "a: v2.0.0 # {\"$imagepolicy\": \"apps:web:tag\"}",
	},
}

func TestAFileChangesInTheBytesOfItsMarkersAlone(t *testing.T) {
	for name, files := range golden {
		t.Run(name, func(t *testing.T) {
			changed, changes, _, err := update([]byte(files[0]), chosen)
			if err != nil {
				t.Fatal(err)
			}
			if string(changed) != files[1] {
				t.Errorf("\n%q\nwant\n%q", changed, files[1])
			}
			if (files[1] == "") != (len(changes) == 0) {
				t.Errorf("changes: %v", changes)
			}
			if again, _, _, err := update(changed, chosen); files[1] != "" && (err != nil || again != nil) {
				t.Errorf("not settled: %q %v", again, err)
			}
		})
	}
}

func TestWhatCannotBeChangedInPlaceFails(t *testing.T) {
	for text, want := range map[string]string{
		"a: [ # {\"$imagepolicy\": \"apps:web\"}\n":                        "it is not YAML",
		"b: 1\n---\na: \"we\\x62:1\" # {\"$imagepolicy\": \"apps:web\"}\n": "the document at line 2: line 2 of it",
	} {
		if _, _, _, err := update([]byte(text), chosen); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestALargeFileIsChangedInPlace(t *testing.T) {
	block := strings.Repeat("- {name: x, value: \"0123456789\", more: [a, b, c]} # comment\n", 1000)
	before := "list:\n" + strings.Repeat(block, 10<<20/len(block))
	marked := before + "tag: v1 # {\"$imagepolicy\": \"apps:web:tag\"}\n"

	changed, changes, _, err := update([]byte(marked), chosen)

	if err != nil || len(changes) != 1 || string(changed) != before+"tag: v2.0.0 # {\"$imagepolicy\": \"apps:web:tag\"}\n" {
		t.Errorf("%v %v", changes, err)
	}
}

func TestALargeDocumentIsReadAsASmallOne(t *testing.T) {
	filler := "filler: |\n" + strings.Repeat("  text # {\"$imagepolicy\": \"apps:web:tag\"}\n", largeDocument/40)
	for _, each := range []struct{ before, after string }{
		{"kind: A\nmetadata:\n  name: n\ntag: v1 # {\"$imagepolicy\": \"apps:web:tag\"}\n", "tag: v2.0.0 #"},
		{"kind: A\nmetadata: {name: n}\nlist:\n- a\n- v1 # {\"$imagepolicy\": \"apps:web:tag\"}\n", "- v2.0.0 #"},
		{"kind: A\nmetadata: {name: n}\na: &x [b]\nc: *x\ntag: v1 # {\"$imagepolicy\": \"apps:web:tag\"}\n", "tag: v2.0.0 #"},
		// Lines within a text or a list of another line are not entries, wherever they begin.
		{"kind: A\nmetadata: {name: n}\ntext: \"x\ntag: v1 # {'$imagepolicy': 'apps:web:tag'}\n\"\n", ""},
	} {
		content := filler + each.before
		changed, changes, _, err := update([]byte(content), chosen)
		if err != nil && each.after != "" {
			t.Errorf("%s: %v", each.before, err)
		}
		if (each.after == "") != (len(changes) == 0) || !strings.Contains(string(changed), each.after) {
			t.Errorf("%s: %v", each.before, changes)
		}
		if len(changes) == 1 && (changes[0].Object != Object{Kind: "A", Name: "n"} || !strings.HasPrefix(string(changed), filler)) {
			t.Errorf("%s: %+v", each.before, changes)
		}
	}
}

func set(t *testing.T, request SetRequest) (*SetResponse, error) {
	t.Helper()
	in, _ := json.Marshal(request)
	out, err := Set(t.Context(), in)
	if err != nil {
		return nil, err
	}
	var response SetResponse
	return &response, json.Unmarshal(out, &response)
}

func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		target := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(target, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestOnlyFilesBelowThePathChange(t *testing.T) {
	marked := "kind: A\nmetadata: {name: n, namespace: s}\ntag: v1 # {\"$imagepolicy\": \"apps:web:tag\"}\n"
	root := repository(t, map[string]string{"apps/b.yml": marked, "apps/a/a.yaml": marked, "apps/c.txt": marked, "other/a.yaml": marked})
	if err := os.Symlink("/etc", filepath.Join(root, "apps/etc")); err != nil {
		t.Fatal(err)
	}

	response, err := set(t, SetRequest{Root: root, Path: "./apps", Images: chosen})

	if err != nil || len(response.Files) != 2 || response.Files[0].Path != "apps/a/a.yaml" || response.Files[1].Path != "apps/b.yml" {
		t.Fatalf("%+v, %v", response, err)
	}
	want := Change{Object: Object{Kind: "A", Namespace: "s", Name: "n"}, Setter: "apps:web:tag", Old: "v1", New: "v2.0.0"}
	if response.Files[0].Changes[0] != want {
		t.Errorf("%+v", response.Files[0].Changes)
	}
}

func TestNoPathLeadsOut(t *testing.T) {
	root := repository(t, map[string]string{"in/a.yaml": "a: 1\n"})
	outside := repository(t, map[string]string{"a.yaml": "tag: v1 # {\"$imagepolicy\": \"apps:web:tag\"}\n"})
	if err := os.Symlink(outside, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"../", "/etc", "in/../../x", "none", "link"} {
		if response, err := set(t, SetRequest{Root: root, Path: path, Images: chosen}); err == nil && len(response.Files) > 0 {
			t.Errorf("%s: %+v", path, response)
		}
	}
}

func TestFilesAreChangedWhereTheLinksOnThePathLead(t *testing.T) {
	marked := "tag: v1 # {\"$imagepolicy\": \"apps:web:tag\"}\n"
	root := repository(t, map[string]string{"real/a.yaml": marked, "real/deep/b.yaml": marked})
	for name, target := range map[string]string{
		"link": "real", "again": "./link/../link", "file.yaml": "real/a.yaml", "real/up": "..",
		"loop": "loop", "out": "../x", "deep": "real/deep/../../..", "root": "/", "gone": "none",
	} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		".": "real/a.yaml real/deep/b.yaml", "": "real/a.yaml real/deep/b.yaml", "real/": "real/a.yaml real/deep/b.yaml",
		"link": "real/a.yaml real/deep/b.yaml", "again/deep": "real/deep/b.yaml", "./link/a.yaml": "real/a.yaml",
		"file.yaml": "real/a.yaml", "link/up/real/up/link/deep": "real/deep/b.yaml",
		"loop": "PathInvalid", "out": "PathInvalid", "deep": "PathInvalid", "root/etc": "PathInvalid", "gone": "PathInvalid", "real/none": "PathInvalid",
	} {
		response, err := set(t, SetRequest{Root: root, Path: path, Images: chosen})
		var failed *call.Failure
		var found []string
		if errors.As(err, &failed) {
			found = append(found, failed.Code)
		}
		if err == nil {
			for _, file := range response.Files {
				found = append(found, file.Path)
			}
		}
		if got := strings.Join(found, " "); got != want {
			t.Errorf("%s: %s, %v, want %s", path, got, err, want)
		}
	}
}

func TestMarkersThatAreNotBesideAValueAreFound(t *testing.T) {
	text := strings.Join([]string{
		"image: web:1 # {\"$imagepolicy\": \"apps:web\"}",
		"tag: # {\"$imagepolicy\": \"apps:web:tag\"}",
		"one: {image: web:1} # {\"$imagepolicy\": \"apps:web\"}",
		"# {\"$imagepolicy\": \"apps:web\"}",
		"above: web:1",
		"values: |",
		"  image: web:1 # {\"$imagepolicy\": \"apps:web\"}",
		"# image: web:1 # {\"$imagepolicy\": \"apps:web\"}",
		"note: the text \"$imagepolicy\"",
		"other: web:1 # {\"$imagepolicy\": \"apps:typo:tag\"}",
		"a: &a web:1 # {\"$imagepolicy\": \"apps:web\"}",
		"b: *a # {\"$imagepolicy\": \"apps:web\"}",
		"---",
		"- web:1 # {\"$imagepolicy\": \"shop:web\"}",
		"- [web:1] # {\"$imagepolicy\": \"shop:web\"}",
		"",
	}, "\n")
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	request, _ := json.Marshal(SetRequest{Root: root, Path: ".", Images: chosen})
	answer, err := Set(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	var found SetResponse
	if err := json.Unmarshal(answer, &found); err != nil {
		t.Fatal(err)
	}
	lines := []int{}
	for _, place := range found.Misplaced {
		lines = append(lines, place.Line)
	}
	if want := []int{2, 3, 4, 7, 15}; !slices.Equal(lines, want) {
		t.Errorf("misplaced are %v instead of %v", lines, want)
	}
	if want := []string{"apps:typo", "apps:web", "shop:web"}; !slices.Equal(found.Policies, want) {
		t.Errorf("policies are %v instead of %v", found.Policies, want)
	}
}

func TestMarkersOfALargeDocumentAreFoundInItsParts(t *testing.T) {
	text := "image: web:1 # {\"$imagepolicy\": \"apps:web\"}\nfill: " + strings.Repeat("x", largeDocument) +
		"\nmap: {image: web:1} # {\"$imagepolicy\": \"apps:web\"}\ntag: v2.0.0 # {\"$imagepolicy\": \"apps:web:tag\"}\n"
	_, _, seen, err := update([]byte(text), chosen)
	if err != nil {
		t.Fatal(err)
	}
	if found := misplaced([]byte(text), seen.lines); !slices.Equal(found, []int{3}) {
		t.Errorf("misplaced are %v instead of line 3", found)
	}
}
