package charts

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

const (
	chartFile  = "Chart.yaml"
	valuesFile = "values.yaml"
	subcharts  = "charts"
)

var byteOrderMark = []byte{0xEF, 0xBB, 0xBF}

// files of a chart by their names below its directory.
type files map[string][]byte

// budget counts the files of a chart, with those of its subcharts, and refuses the one too many.
type budget struct {
	limits
	bytes int64
	files int
}

func (b *budget) take(name string, size int64) error {
	b.bytes += size
	b.files++
	switch {
	case size > b.FileBytes:
		return fmt.Errorf("%s is larger than %d MiB", shown(name), b.FileBytes>>20)
	case b.bytes > b.UnpackedBytes:
		return fmt.Errorf("its files are larger than %d MiB", b.UnpackedBytes>>20)
	case b.files > b.Files:
		return fmt.Errorf("it has more than %d files", b.Files)
	case strings.Count(name, "/") >= b.PathDepth:
		return fmt.Errorf("%s lies deeper than %d directories", shown(name), b.PathDepth)
	}
	return nil
}

// load has Helm read the chart. Packages among its subcharts are unpacked here: Helm's own reader
// bounds the bytes of each, and neither those of all nor how deep they nest.
func (f files) load(b *budget) (*chart.Chart, error) {
	if _, ok := f[chartFile]; !ok {
		return nil, fmt.Errorf("%s is missing", chartFile)
	}
	unpacked, err := f.unpacked(b, 0)
	if err != nil {
		return nil, err
	}
	var buffered []*archive.BufferedFile
	for _, name := range slices.Sorted(maps.Keys(unpacked)) {
		if path.Base(name) == chartFile && len(unpacked[name]) > b.MetadataBytes {
			return nil, fmt.Errorf("%s is larger than %d MiB", shown(name), b.MetadataBytes>>20)
		}
		buffered = append(buffered, &archive.BufferedFile{Name: name, Data: unpacked[name]})
	}
	loaded, err := loader.LoadFiles(buffered)
	if err != nil {
		return nil, err
	}
	if n := len(loaded.Metadata.Dependencies); n > b.Dependencies {
		return nil, fmt.Errorf("it has more than %d dependencies", b.Dependencies)
	}
	return loaded, nil
}

// unpacked returns the files with those of packages in charts/ in their place. Such a package is in
// depth others, and may contain itself.
func (f files) unpacked(b *budget, depth int) (files, error) {
	if depth > b.PathDepth {
		return nil, fmt.Errorf("it has packages in packages, deeper than %d", b.PathDepth)
	}
	result := files{}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if !isSubchart(name) {
			result[name] = f[name]
			continue
		}
		inner, err := readPackage(bytes.NewReader(f[name]), b)
		if err != nil {
			return nil, fmt.Errorf("%s cannot be read: %w", shown(name), err)
		}
		if inner, err = inner.unpacked(b, depth+1); err != nil {
			return nil, err
		}
		for below, data := range inner {
			result[name+".unpacked/"+below] = data
		}
	}
	return result, nil
}

// isSubchart tells whether Helm would unpack the file: a package in charts/, of the chart itself or
// of a subchart, whose name hides it from nobody.
func isSubchart(name string) bool {
	parts := strings.Split(name, "/")
	if len(parts)%2 != 0 || path.Ext(name) != ".tgz" {
		return false
	}
	for i, part := range parts {
		if i%2 == 0 && part != subcharts || i%2 == 1 && strings.IndexAny(part, "_.") == 0 {
			return false
		}
	}
	return true
}

// size returns the bytes of all files.
func (f files) size() (total int64) {
	for _, data := range f {
		total += int64(len(data))
	}
	return total
}

// shown returns a name that a stranger chose for a message.
func shown(name string) string {
	if len(name) > 300 {
		name = name[:300]
	}
	return fmt.Sprintf("%+q", name)
}
