package tree

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func open(t *testing.T, mounts map[string]string, files map[string][]byte, limits Limits) *Tree {
	t.Helper()
	tree, err := Open(t.Context(), mounts, files, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tree.Close)
	return tree
}

func names(t *testing.T, tree *Tree, dir string) string {
	t.Helper()
	entries, err := tree.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, entry := range entries {
		if all = append(all, entry.Name); entry.IsDir {
			all[len(all)-1] += "/"
		}
	}
	return strings.Join(all, " ")
}

func TestMountsAndFilesAreOneTree(t *testing.T) {
	root := write(t, map[string]string{"a": "root", "m/hidden": "x", "d/e": "root"})
	mounted := write(t, map[string]string{"b": "mounted"})
	files := map[string][]byte{"a": []byte("memory"), "d/new/f": []byte("memory")}
	tree := open(t, map[string]string{"": root, "m": mounted, "n/o": mounted}, files, DefaultLimits)

	for dir, want := range map[string]string{"/": "a d/ m/ n/", "/m": "b", "/n": "o/", "/n/o": "b", "/d": "e new/", "d/new": "f"} {
		if got := names(t, tree, dir); got != want {
			t.Errorf("%s: %q, want %q", dir, got, want)
		}
	}
	for name, want := range map[string]string{"/a": "memory", "a": "memory", "m/b": "mounted", "/n/o/b": "mounted", "d/../d/e": "root", "/../../d/e": "root"} {
		if got, err := tree.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := tree.ReadFile("/m/hidden"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a mount shows what is under it: %v", err)
	}
	if tree.Denial() != nil {
		t.Errorf("a missing file is not a denial: %v", tree.Denial())
	}
}

func TestATreeCannotBeLeft(t *testing.T) {
	outside := write(t, map[string]string{"secret": "x"})
	root := write(t, map[string]string{"a/b": "x"})
	for name, target := range map[string]string{"abs": outside + "/secret", "a/rel": "../../" + filepath.Base(outside), "dir": outside, "in": "a/b"} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"abs", "a/rel/secret", "dir/secret"} {
		tree := open(t, map[string]string{"": root}, nil, DefaultLimits)
		if data, err := tree.ReadFile(name); err == nil || tree.Denial() == nil {
			t.Errorf("%s: %q", name, data)
		}
		if tree.IsFile(name) || tree.IsDir(name) {
			t.Errorf("%s is visible", name)
		}
	}
	tree := open(t, map[string]string{"": root}, nil, DefaultLimits)
	if data, err := tree.ReadFile("in"); err != nil || string(data) != "x" {
		t.Errorf("a link inside: %q, %v", data, err)
	}
}

func TestOnlyRegularFilesAreRead(t *testing.T) {
	root := write(t, map[string]string{"a/b": "x"})
	if err := syscall.Mkfifo(filepath.Join(root, "pipe"), 0o600); err != nil {
		t.Skip(err)
	}
	tree := open(t, map[string]string{"": root}, nil, DefaultLimits)
	for _, name := range []string{"pipe", "a"} {
		if _, err := tree.ReadFile(name); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEveryLimitHolds(t *testing.T) {
	root := write(t, map[string]string{"a": "12345", "b": "12345", "c": "1234567890"})
	if err := os.Truncate(filepath.Join(root, "c"), 1<<40); err != nil {
		t.Fatal(err)
	}
	for want, limits := range map[string]Limits{
		"more than 1 files":  {Reads: 1, Entries: 9, FileBytes: 9, Bytes: 99},
		"searches more than": {Reads: 9, Entries: 2, FileBytes: 9, Bytes: 99},
		"c is larger than":   {Reads: 9, Entries: 9, FileBytes: 9, Bytes: 99},
		"reads more than 0":  {Reads: 9, Entries: 9, FileBytes: 9, Bytes: 9},
	} {
		tree := open(t, map[string]string{"": root}, nil, limits)
		_, _ = tree.List(".")
		for _, name := range []string{"a", "b", "c"} {
			_, _ = tree.ReadFile(name)
		}
		if tree.Denial() == nil || !strings.Contains(tree.Denial().Error(), want) {
			t.Errorf("%v, want %q", tree.Denial(), want)
		}
	}
}

func TestTheFirstDenialIsKept(t *testing.T) {
	tree := open(t, nil, map[string][]byte{"a": nil, "b": nil}, DefaultLimits)
	tree.SetCheck(func(name string, _ []byte) error { return Denyf("not %s", name) })

	_, _ = tree.ReadFile("b")
	_, _ = tree.ReadFile("a")

	if tree.Denial() == nil || tree.Denial().Error() != "not b" {
		t.Error(tree.Denial())
	}
}

func TestMountPointsAreCleanRelativePaths(t *testing.T) {
	for _, point := range []string{"/abs", "../up", "a/../b", ".", "a/"} {
		if tree, err := Open(t.Context(), map[string]string{point: t.TempDir()}, nil, DefaultLimits); err == nil {
			tree.Close()
			t.Errorf("%q is accepted", point)
		}
	}
}

func TestPuttingAFileCanBeUndone(t *testing.T) {
	tree := open(t, nil, map[string][]byte{"a": []byte("before")}, DefaultLimits)

	tree.Put("/a", []byte("after"))()
	tree.Put("b", nil)()

	if data, err := tree.ReadFile("a"); err != nil || string(data) != "before" {
		t.Errorf("%q, %v", data, err)
	}
	if tree.IsFile("b") {
		t.Error("b is still there")
	}
}

func TestAFootprintChangesWithEveryAnswerAndWithNothingElse(t *testing.T) {
	before := map[string]string{"read": "1", "dir/a": "1", "seen": "1", "other": "1"}
	ask := func(tree *Tree) {
		tree.ReadFile("read")
		tree.List("dir")
		tree.IsFile("seen")
		tree.IsDir("missing")
	}
	footprint := func(changes map[string]string, overlay map[string][]byte) Footprint {
		files := maps.Clone(before)
		maps.Copy(files, changes)
		mounts := map[string]string{"": write(t, files)}
		tree := open(t, mounts, overlay, DefaultLimits)
		ask(tree)
		found, err := tree.Footprint(t.Context(), mounts, "")
		if err != nil {
			t.Fatal(err)
		}
		answered, err := Answer(t.Context(), mounts, found.Questions)
		if err != nil || answered != found {
			t.Errorf("asked again: %v, %v; want %v", answered, err, found)
		}
		return found
	}

	want := footprint(nil, nil)

	for _, same := range []map[string]string{{"other": "2"}, {"seen": "2"}, {"dir/a": "2"}, {"new": "1"}} {
		if got := footprint(same, nil); got != want {
			t.Errorf("%v changes the footprint", same)
		}
	}
	for _, other := range []map[string]string{{"read": "2"}, {"dir/b": "1"}, {"missing/x": "1"}} {
		if got := footprint(other, nil); got.Digest == want.Digest {
			t.Errorf("%v does not change the footprint", other)
		}
	}
	if got := footprint(nil, map[string][]byte{"read": []byte("memory")}); got != want {
		t.Error("a file in memory changes the footprint of the mounts")
	}
}

func TestAFootprintTakesTheQuestionsOfAnEarlierBuild(t *testing.T) {
	mounts := map[string]string{"": write(t, map[string]string{"read": "1", "later": "1"})}
	ask := func(earlier string, names ...string) Footprint {
		tree := open(t, mounts, nil, DefaultLimits)
		for _, name := range names {
			tree.ReadFile(name)
		}
		found, err := tree.Footprint(t.Context(), mounts, earlier)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}

	earlier, both := ask("", "read"), ask("", "read", "later")

	if got := ask(earlier.Questions, "later"); got != both {
		t.Errorf("%v, want %v", got, both)
	}
	if got := ask(earlier.Questions); got != earlier {
		t.Errorf("%v, want %v", got, earlier)
	}
}
