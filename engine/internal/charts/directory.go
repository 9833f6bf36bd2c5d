package charts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"helm.sh/helm/v4/pkg/ignore"
)

var errLeadsOut = errors.New("points outside the source")

// tree is the directory of a source, which no path leaves.
type tree struct {
	*os.Root
	limits
}

func (s *source) open() (*tree, error) {
	root, err := os.OpenRoot(s.Root)
	if err != nil {
		return nil, err
	}
	return &tree{Root: root, limits: s.Limits}, nil
}

// find returns a path as it is below the root, slash or not, and what is there: nil if nothing is.
func (t *tree) find(name string) (string, fs.FileInfo, error) {
	if strings.ContainsRune(name, 0) {
		return "", nil, errLeadsOut
	}
	cleaned := path.Clean(strings.TrimLeft(name, "/"))
	if cleaned == ".." || strings.HasPrefix(cleaned, "../") {
		return "", nil, errLeadsOut
	}
	info, err := t.Stat(cleaned)
	switch {
	case err == nil:
		return cleaned, info, nil
	case errors.Is(err, fs.ErrNotExist), isNotDirectory(err):
		return cleaned, nil, nil
	default:
		return "", nil, errLeadsOut // os.Root has no error of its own for a link that does
	}
}

// read returns the files of the chart at a path that was found.
func (t *tree) read(name string, info fs.FileInfo, b *budget) (files, error) {
	if info.IsDir() {
		return t.readDirectory(name, b)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a file")
	}
	if info.Size() > t.ChartBytes {
		return nil, fmt.Errorf("it is larger than %d MiB", t.ChartBytes>>20)
	}
	file, err := t.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readPackage(file, b)
}

// readDirectory returns the files that .helmignore does not leave out. Helm's loader would follow
// links, out of the source too.
func (t *tree) readDirectory(name string, b *budget) (files, error) {
	root, err := t.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	below := &tree{Root: root, limits: t.limits}
	rules, err := below.rules()
	if err != nil {
		return nil, err
	}
	found := files{}
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		switch ignored := rules.Ignore(name, info); {
		case ignored && entry.IsDir():
			return fs.SkipDir
		case entry.IsDir() && strings.Count(name, "/") >= t.PathDepth:
			return fmt.Errorf("it has directories deeper than %d", t.PathDepth)
		case ignored || !entry.Type().IsRegular():
			return nil
		}
		if err := b.take(name, info.Size()); err != nil {
			return err
		}
		found[name], err = below.readFile(name)
		return err
	})
	return found, err
}

func (t *tree) rules() (*ignore.Rules, error) {
	rules := ignore.Empty()
	info, err := t.Lstat(ignore.HelmIgnore)
	if err == nil && info.Mode().IsRegular() {
		data, err := t.readFile(ignore.HelmIgnore)
		if err != nil {
			return nil, err
		}
		if bytes.Count(data, []byte{'\n'}) >= t.IgnoreRules {
			return nil, fmt.Errorf("%q has more than %d lines", ignore.HelmIgnore, t.IgnoreRules)
		}
		if rules, err = ignore.Parse(bytes.NewReader(data)); err != nil {
			return nil, fmt.Errorf("%q cannot be understood: %w", ignore.HelmIgnore, err)
		}
	}
	rules.AddDefaults()
	return rules, nil
}

// readFile returns a file without a mark of its byte order, if it is not too large.
func (t *tree) readFile(name string) ([]byte, error) {
	file, err := t.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, t.FileBytes+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > t.FileBytes {
		return nil, fmt.Errorf("%s is larger than %d MiB", shown(name), t.FileBytes>>20)
	}
	return bytes.TrimPrefix(data, byteOrderMark), nil
}
