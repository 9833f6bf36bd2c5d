package tree

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"

	"sigs.k8s.io/kustomize/kyaml/filesys"
)

var errReadOnly = errors.New("the file system of a build is read-only")

// FileSystem shows a Tree to kustomize. Its root is "/". Symbolic links are resolved when a file is
// opened, by os.Root; paths are compared as they are written.
type FileSystem struct{ *Tree }

var _ filesys.FileSystem = FileSystem{}

// Exists implements filesys.FileSystem.
func (f FileSystem) Exists(name string) bool { return f.IsDir(name) || f.IsFile(name) }

// CleanedAbs implements filesys.FileSystem.
func (f FileSystem) CleanedAbs(name string) (filesys.ConfirmedDir, string, error) {
	name = path.Clean("/" + name)
	switch {
	case f.IsDir(name):
		return filesys.ConfirmedDir(name), "", nil
	case f.IsFile(name):
		return filesys.ConfirmedDir(path.Dir(name)), path.Base(name), nil
	default:
		return "", "", fmt.Errorf("'%s' doesn't exist", name)
	}
}

// ReadDir implements filesys.FileSystem.
func (f FileSystem) ReadDir(name string) ([]string, error) {
	entries, err := f.List(name)
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name
	}
	return names, err
}

// Open implements filesys.FileSystem; builds read whole files.
func (FileSystem) Open(string) (filesys.File, error) { return nil, errors.ErrUnsupported }

// Glob implements filesys.FileSystem; kustomizations have no globs.
func (FileSystem) Glob(string) ([]string, error) { return nil, errors.ErrUnsupported }

// Walk implements filesys.FileSystem; only programs that edit kustomizations walk.
func (FileSystem) Walk(string, filepath.WalkFunc) error { return errors.ErrUnsupported }

// Create implements filesys.FileSystem.
func (FileSystem) Create(string) (filesys.File, error) { return nil, errReadOnly }

// Mkdir implements filesys.FileSystem.
func (FileSystem) Mkdir(string) error { return errReadOnly }

// MkdirAll implements filesys.FileSystem.
func (FileSystem) MkdirAll(string) error { return errReadOnly }

// RemoveAll implements filesys.FileSystem.
func (FileSystem) RemoveAll(string) error { return errReadOnly }

// WriteFile implements filesys.FileSystem.
func (FileSystem) WriteFile(string, []byte) error { return errReadOnly }
