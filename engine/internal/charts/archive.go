package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// readPackage returns the files of a packaged chart. Helm's reader takes links for empty files, a
// name twice, and any number of files; this one does not.
func readPackage(in io.Reader, b *budget) (files, error) {
	inflated, err := gzip.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("it is not a gzipped archive: %w", err)
	}
	found := files{}
	reader := tar.NewReader(inflated)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		name, err := inner(header)
		if err != nil {
			return nil, err
		}
		if err := b.take(name, header.Size); err != nil {
			return nil, err
		}
		if header.Typeflag != tar.TypeReg {
			continue // directories come with their files, links are not followed
		}
		if _, ok := found[name]; ok {
			return nil, fmt.Errorf("%s occurs twice in it", shown(name))
		}
		data, err := io.ReadAll(reader)
		if err != nil {
			return nil, err
		}
		found[name] = bytes.TrimPrefix(data, byteOrderMark)
	}
	if len(found) == 0 {
		return nil, errors.New("it has no files")
	}
	return found, nil
}

// inner returns the name of an entry without the directory that every package has.
func inner(header *tar.Header) (string, error) {
	switch header.Typeflag {
	case tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeXGlobalHeader:
	default:
		return "", fmt.Errorf("its entry %s is not allowed: it is not a file, directory or symbolic link",
			shown(header.Name))
	}
	name := strings.ReplaceAll(header.Name, `\`, "/")
	if !utf8.ValidString(name) {
		return "", errors.New("it has a file whose name is not UTF-8")
	}
	if strings.HasPrefix(name, "/") || strings.ContainsRune(name, 0) ||
		slices.Contains(strings.Split(name, "/"), "..") {
		return "", fmt.Errorf("its entry %s points outside the archive", shown(header.Name))
	}
	_, below, ok := strings.Cut(path.Clean(name), "/")
	if !ok && header.Typeflag == tar.TypeReg {
		return "", fmt.Errorf("its file %s is in no directory", shown(header.Name))
	}
	return below, nil
}

// epoch is the time of everything that is written: names and contents alone decide what comes out.
var epoch = time.Unix(0, 0)

// write writes the package of the chart. Helm's Save takes the order of subcharts from a map and
// times from the clock, and of two subcharts of one name it keeps one.
func (f files) write(chart, out string, most int64) (err error) {
	file, err := os.Create(out)
	if err != nil {
		return err
	}
	defer func() {
		if closed := file.Close(); err == nil {
			err = closed
		}
		if err != nil {
			_ = os.Remove(out)
		}
	}()
	deflated := gzip.NewWriter(file)
	writer := tar.NewWriter(deflated)
	for _, name := range f.names() {
		header := tar.Header{
			Name: chart + "/" + name, Mode: 0o644, Size: int64(len(f[name])), ModTime: epoch,
		}
		if err := writer.WriteHeader(&header); err != nil {
			return err
		}
		if _, err := writer.Write(f[name]); err != nil {
			return err
		}
	}
	if err := errors.Join(writer.Close(), deflated.Close()); err != nil {
		return err
	}
	if info, err := file.Stat(); err != nil || info.Size() > most {
		return errors.Join(err, fmt.Errorf("it is larger than %d MiB", most>>20))
	}
	return nil
}

// names returns the names of files in the order of a package: Chart.yaml, and then by name.
func (f files) names() []string {
	names := make([]string, 0, len(f))
	for name := range f {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if a == chartFile || b == chartFile {
			return map[bool]int{true: -1, false: 1}[a == chartFile]
		}
		return strings.Compare(a, b)
	})
	return names
}
