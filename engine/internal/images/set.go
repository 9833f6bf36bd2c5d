// Package images writes chosen images into manifests, and the messages of the commits that do.
package images

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"sort"
	"strings"

	"penstock.dev/engine/internal/call"
)

const (
	marker  = "$imagepolicy"
	maxFile = 32 << 20
	maxAll  = 128 << 20
	maxWalk = 200_000
	// maxLinks is how many links Linux follows on one path.
	maxLinks     = 40
	maxPolicies  = 1000
	maxMisplaced = 20
)

// Image is what a policy has chosen. Digest may be empty.
type Image struct {
	Name   string `json:"name"`
	Tag    string `json:"tag"`
	Digest string `json:"digest"`
}

func (i Image) String() string {
	text := i.Name + ":" + i.Tag
	if i.Digest != "" {
		text += "@" + i.Digest
	}
	return text
}

// SetRequest asks for the files below a directory to be brought up to date.
type SetRequest struct {
	// Root is the directory of the repository; nothing outside it is read.
	Root string `json:"root"`
	// Path is where to look, relative to Root.
	Path string `json:"path"`
	// Images are by "<namespace>:<name>" of their policy.
	Images map[string]Image `json:"images"`
}

// SetResponse has the files that change, by path. Policies are those that markers beside values name,
// in order; Misplaced are the first markers that are not beside a value. Both are bounded.
type SetResponse struct {
	Files     []File   `json:"files"`
	Policies  []string `json:"policies"`
	Misplaced []Place  `json:"misplaced"`
}

// Place is a line of a file, counted from 1.
type Place struct {
	Path string `json:"path"`
	Line int    `json:"line"`
}

// File is one file that changes.
type File struct {
	Path    string   `json:"path"`
	Content []byte   `json:"content,omitempty"`
	Changes []Change `json:"changes"`
}

// Object is what a change is in.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
}

// Change is one value that changes. Setter is the text of its marker.
type Change struct {
	Object Object `json:"object"`
	Setter string `json:"setter"`
	Old    string `json:"old"`
	New    string `json:"new"`
}

// Set is an operation: a SetRequest becomes a SetResponse. The detail of a failure is, as "path",
// the file on which it failed.
func Set(ctx context.Context, in []byte) ([]byte, error) {
	var request SetRequest
	if err := json.Unmarshal(in, &request); err != nil {
		return nil, fmt.Errorf("reading the request: %w", err)
	}
	root, err := os.OpenRoot(request.Root)
	if err != nil {
		return nil, fmt.Errorf("opening the repository: %w", err)
	}
	defer root.Close()
	start := path.Clean(strings.TrimPrefix(request.Path, "./"))
	if start == "" || !fs.ValidPath(start) {
		return nil, &call.Failure{Code: "PathInvalid", Message: fmt.Sprintf("'%s' points outside the repository", request.Path)}
	}
	start, err = resolved(root, start)
	if err != nil {
		return nil, err
	}
	names, err := files(ctx, root, start)
	if err != nil {
		return nil, err
	}
	response, read := SetResponse{Files: []File{}, Misplaced: []Place{}}, 0
	policies := map[string]bool{}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		content, err := readFile(root, name)
		if err != nil {
			return nil, failure(name, err)
		}
		if read += len(content); read > maxAll {
			return nil, failure(name, fmt.Errorf("files with markers have more than %d bytes together: set spec.update.path", maxAll))
		}
		if content == nil {
			continue
		}
		changed, changes, seen, err := update(content, request.Images)
		if err != nil {
			return nil, failure(name, err)
		}
		for policy := range seen.policies {
			if len(policies) < maxPolicies {
				policies[policy] = true
			}
		}
		for _, line := range misplaced(content, seen.lines) {
			if len(response.Misplaced) < maxMisplaced {
				response.Misplaced = append(response.Misplaced, Place{Path: name, Line: line})
			}
		}
		if len(changes) > 0 {
			response.Files = append(response.Files, File{Path: name, Content: changed, Changes: changes})
		}
	}
	response.Policies = slices.Sorted(maps.Keys(policies))
	return json.Marshal(response)
}

func failure(name string, err error) error {
	failed := &call.Failure{Code: "UpdateFailed", Message: fmt.Sprintf("%s: %v", name, err)}
	failed.Detail, _ = json.Marshal(map[string]string{"path": name})
	return failed
}

// resolved returns what a path means after the links on it, so that files are changed where they lie.
// Links that lead out of the repository lead to nothing.
func resolved(root *os.Root, start string) (string, error) {
	at, rest := ".", strings.Split(start, "/")
	for links := 0; len(rest) > 0; {
		next := path.Join(at, rest[0])
		info, err := root.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode()&fs.ModeSymlink == 0 {
			at, rest = next, rest[1:]
			continue
		}
		target := ""
		if err == nil {
			target, err = root.Readlink(next)
		}
		whole := path.Join(append([]string{at, target}, rest[1:]...)...)
		if links++; err != nil || links > maxLinks || path.IsAbs(target) || !fs.ValidPath(whole) {
			return "", &call.Failure{Code: "PathInvalid", Message: fmt.Sprintf("'%s' cannot be followed within the repository", next)}
		}
		at, rest = ".", strings.Split(whole, "/")
	}
	return at, nil
}

// files returns the YAML files below a directory, or the file itself, in order. Links are not
// followed.
func files(ctx context.Context, root *os.Root, start string) ([]string, error) {
	var names []string
	seen := 0
	err := fs.WalkDir(root.FS(), start, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if seen++; seen > maxWalk {
			return fmt.Errorf("there are more than %d files: set spec.update.path", maxWalk)
		}
		if entry.Type().IsRegular() && (strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")) {
			names = append(names, name)
		}
		return ctx.Err()
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &call.Failure{Code: "PathInvalid", Message: fmt.Sprintf("there is no '%s' in the repository", start)}
	}
	if err != nil {
		return nil, &call.Failure{Code: "UpdateFailed", Message: err.Error()}
	}
	sort.Strings(names)
	return names, nil
}

// readFile returns the content of a file that holds a marker, else nothing.
func readFile(root *os.Root, name string) ([]byte, error) {
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil || !bytes.Contains(content, []byte(marker)) {
		return nil, err
	}
	if len(content) > maxFile {
		return nil, fmt.Errorf("it has more than %d bytes", maxFile)
	}
	return content, nil
}
