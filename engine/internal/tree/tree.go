// Package tree is the file system that a build sees: directories of artifacts mounted at places of
// one tree, files in memory laid over them, and nothing else.
//
// It is read-only, bounded, and cannot be left: every access goes through os.Root, so neither ".."
// nor a symbolic link reaches what was not mounted. Libraries tend to hide the error of a file that
// was denied behind one of their own; the tree keeps the first denial for the one who runs the build.
package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sort"
	"strings"
	"syscall"
)

// Limits bound what one build may read.
type Limits struct {
	Reads     int   // files read, counting repetitions
	Entries   int   // directory entries seen
	FileBytes int64 // size of one file
	Bytes     int64 // sum of the sizes of all files read
}

// DefaultLimits are far above what an honest build needs and far below what hurts.
var DefaultLimits = Limits{Reads: 20_000, Entries: 100_000, FileBytes: 16 << 20, Bytes: 64 << 20}

// Denial is an access that the tree refused, as opposed to a file that is not there.
type Denial struct{ message string }

func (d *Denial) Error() string { return d.message }

// Denyf makes a Denial; a check passed to SetCheck returns it.
func Denyf(format string, args ...any) error {
	return &Denial{message: fmt.Sprintf(format, args...)}
}

// Tree is made by Open and not safe for concurrent use.
type Tree struct {
	ctx     context.Context
	mounts  []mount
	overlay map[string][]byte
	limits  Limits
	check   func(name string, data []byte) error

	reads, entries int
	bytes          int64
	seen           map[string]bool
	asked          map[string]struct{} // questions, see Footprint
	denial         error
}

type mount struct {
	point string // clean and relative; "." is the root
	root  *os.Root
}

func (m mount) depth() int {
	if m.point == "." {
		return 0
	}
	return 1 + strings.Count(m.point, "/")
}

// Open mounts directories of the machine at places of a tree: "" is its root. files are laid over
// them; their names are relative to the root.
func Open(ctx context.Context, mounts map[string]string, files map[string][]byte, limits Limits) (*Tree, error) {
	t := &Tree{ctx: ctx, overlay: map[string][]byte{}, limits: limits, seen: map[string]bool{},
		asked: map[string]struct{}{}}
	for point, dir := range mounts {
		if point != "" && (!fs.ValidPath(point) || point == ".") {
			t.Close()
			return nil, fmt.Errorf("mount point %q is not a clean relative path", point)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Close()
			// Where the directory is on this machine is nobody's business.
			var pathError *fs.PathError
			if errors.As(err, &pathError) {
				err = pathError.Err
			}
			return nil, fmt.Errorf("mounting the source at %q: %w", "/"+point, err)
		}
		t.mounts = append(t.mounts, mount{point: path.Clean(point), root: root})
	}
	// The deepest mount point that contains a path owns it.
	sort.Slice(t.mounts, func(i, j int) bool { return t.mounts[i].depth() > t.mounts[j].depth() })
	for name, data := range files {
		t.Put(name, data)
	}
	return t, nil
}

// Close releases the mounted directories.
func (t *Tree) Close() {
	for _, m := range t.mounts {
		m.root.Close()
	}
}

// Put lays a file over the tree and returns what undoes this.
func (t *Tree) Put(name string, data []byte) (undo func()) {
	name = clean(name)
	before, existed := t.overlay[name]
	t.overlay[name] = data
	return func() {
		if delete(t.overlay, name); existed {
			t.overlay[name] = before
		}
	}
}

// SetCheck makes check see every file before its reader does; its error denies the file.
func (t *Tree) SetCheck(check func(name string, data []byte) error) { t.check = check }

// Denial returns the first access that was denied, if any.
func (t *Tree) Denial() error { return t.denial }

// Restart forgets the denial and what was read, for a build that starts again under another rule.
func (t *Tree) Restart() { t.denial, t.reads, t.entries, t.bytes = nil, 0, 0, 0 }

// Seen tells whether the file has been read.
func (t *Tree) Seen(name string) bool { return t.seen[clean(name)] }

// ReadFile returns the content of a file.
func (t *Tree) ReadFile(name string) ([]byte, error) {
	name = clean(name)
	t.ask(askContent, name)
	if err := t.ctx.Err(); err != nil {
		return nil, t.deny(err)
	}
	if t.reads++; t.reads > t.limits.Reads {
		return nil, t.deny(Denyf("the build reads more than %d files", t.limits.Reads))
	}
	data, err := t.read(name)
	if err != nil {
		return nil, err
	}
	if t.bytes += int64(len(data)); t.bytes > t.limits.Bytes {
		return nil, t.deny(Denyf("the build reads more than %d MiB", t.limits.Bytes>>20))
	}
	t.seen[name] = true
	if t.check != nil {
		if err := t.check(name, data); err != nil {
			return nil, t.deny(err)
		}
	}
	return data, nil
}

// IsDir tells whether name is a directory.
func (t *Tree) IsDir(name string) bool {
	name = clean(name)
	t.ask(askKind, name)
	if t.isVirtualDir(name) {
		return true
	}
	info, err := t.stat(name)
	return err == nil && info.IsDir()
}

// IsFile tells whether name is there and no directory.
func (t *Tree) IsFile(name string) bool {
	name = clean(name)
	t.ask(askKind, name)
	if _, ok := t.overlay[name]; ok {
		return true
	}
	if t.isVirtualDir(name) {
		return false
	}
	info, err := t.stat(name)
	return err == nil && !info.IsDir()
}

// Entry is a name in a directory. A symbolic link is not a directory, whatever it points to.
type Entry struct {
	Name  string
	IsDir bool
}

// List returns the entries of a directory in lexical order.
func (t *Tree) List(name string) ([]Entry, error) {
	name = clean(name)
	t.ask(askEntries, name)
	found := map[string]bool{}
	if root, rel := t.locate(name); root != nil {
		if err := t.listMounted(root, rel, found); err != nil && !(errors.Is(err, fs.ErrNotExist) && t.isVirtualDir(name)) {
			return nil, t.explain(name, err)
		}
	}
	for file := range t.overlay {
		addBelow(found, name, file, false)
	}
	for _, m := range t.mounts {
		addBelow(found, name, m.point, true)
	}
	entries := make([]Entry, 0, len(found))
	for entry, isDir := range found {
		entries = append(entries, Entry{Name: entry, IsDir: isDir})
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].Name < entries[j].Name })
	return entries, nil
}

func (t *Tree) listMounted(root *os.Root, rel string, found map[string]bool) error {
	dir, err := root.Open(rel)
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		if err := t.ctx.Err(); err != nil {
			return t.deny(err)
		}
		batch, err := dir.ReadDir(1000)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if t.entries += len(batch); t.entries > t.limits.Entries {
			return t.deny(Denyf("the build searches more than %d files and directories: "+
				"add a kustomization.yaml that lists what belongs to it", t.limits.Entries))
		}
		for _, entry := range batch {
			found[entry.Name()] = entry.IsDir()
		}
	}
}

func (t *Tree) read(name string) ([]byte, error) {
	if data, ok := t.overlay[name]; ok {
		return data, nil
	}
	root, rel := t.locate(name)
	if root == nil {
		return nil, notFound("open", name)
	}
	// Without O_NONBLOCK a named pipe would block for ever.
	file, err := root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, t.explain(name, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: "/" + name, Err: errors.New("not a regular file")}
	}
	if info.Size() > t.limits.FileBytes {
		return nil, t.deny(Denyf("%s is larger than %d MiB", name, t.limits.FileBytes>>20))
	}
	return io.ReadAll(io.LimitReader(file, t.limits.FileBytes))
}

func (t *Tree) stat(name string) (fs.FileInfo, error) {
	root, rel := t.locate(name)
	if root == nil {
		return nil, notFound("stat", name)
	}
	info, err := root.Stat(rel)
	if err != nil {
		return nil, t.explain(name, err)
	}
	return info, nil
}

func (t *Tree) locate(name string) (*os.Root, string) {
	for _, m := range t.mounts {
		if rel, ok := below(m.point, name); ok {
			return m.root, rel
		}
	}
	return nil, ""
}

// isVirtualDir tells whether something was mounted at or put below name.
func (t *Tree) isVirtualDir(name string) bool {
	for _, m := range t.mounts {
		if _, ok := below(name, m.point); ok {
			return true
		}
	}
	for file := range t.overlay {
		if _, ok := below(name, file); ok && file != name {
			return true
		}
	}
	return false
}

func (t *Tree) explain(name string, err error) error {
	var pathError *fs.PathError
	if !errors.As(err, &pathError) {
		return err
	}
	// The error value of os.Root is not exported.
	if pathError.Err.Error() == "path escapes from parent" {
		return t.deny(Denyf("%s is a symbolic link that points outside the source", name))
	}
	return &fs.PathError{Op: pathError.Op, Path: "/" + name, Err: pathError.Err}
}

func (t *Tree) deny(err error) error {
	if t.denial == nil {
		t.denial = err
	}
	return err
}

func notFound(op, name string) error {
	return &fs.PathError{Op: op, Path: "/" + name, Err: fs.ErrNotExist}
}

// clean turns a name from a build into a relative path; ".." stops at the root.
func clean(name string) string {
	name = path.Clean("/" + name)[1:]
	if name == "" {
		return "."
	}
	return name
}

// below returns what is left of name under dir.
func below(dir, name string) (string, bool) {
	switch {
	case dir == name:
		return ".", true
	case dir == ".":
		return name, true
	default:
		return strings.CutPrefix(name, dir+"/")
	}
}

func addBelow(found map[string]bool, dir, name string, isDir bool) {
	rel, ok := below(dir, name)
	if !ok || rel == "." {
		return
	}
	first, _, deeper := strings.Cut(rel, "/")
	found[first] = isDir || deeper
}
