package charts

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/Masterminds/semver/v3"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"sigs.k8s.io/yaml"

	"penstock.dev/engine/internal/call"
)

// job is a chart that was found and read.
type job struct {
	source
	tree        *tree
	budget      *budget
	path        string // below the tree's root, cleaned
	isDirectory bool
	files       files
	chart       *chart.Chart
}

// start finds the chart and has Helm read it; the caller closes the job's tree.
func (s *source) start() (*job, error) {
	tree, err := s.open()
	if err != nil {
		return nil, err
	}
	j := &job{source: *s, tree: tree, budget: &budget{limits: s.Limits}}
	if err := j.read(); err != nil {
		tree.Close()
		return nil, err
	}
	return j, nil
}

func (j *job) read() error {
	name, info, err := j.tree.find(j.source.Path)
	if err != nil {
		return failed(noChart, "spec.chart: '%s' %w", j.source.Path, err)
	}
	if info == nil || !info.IsDir() && !info.Mode().IsRegular() {
		return failed(noChart, "spec.chart: there is no chart at '%s' in the source", j.source.Path)
	}
	j.path, j.isDirectory = name, info.IsDir()
	if j.files, err = j.tree.read(name, info, j.budget); err != nil {
		return failed(noPackage, "the chart at '%s' cannot be read: %w", j.source.Path, err)
	}
	if j.chart, err = j.files.load(j.budget); err != nil {
		return failed(noChart, "there is no chart at '%s': %w", j.source.Path, err)
	}
	return nil
}

func (s *source) inspect() (*inspected, error) {
	j, err := s.start()
	if err != nil {
		return nil, err
	}
	defer j.tree.Close()
	found := &inspected{
		Name: j.chart.Name(), Version: j.chart.Metadata.Version, IsDirectory: j.isDirectory,
		Missing: []dependency{},
	}
	if !j.isDirectory {
		return found, nil // it is taken with the dependencies that it has
	}
	lacking, err := j.missing()
	for _, item := range lacking {
		if !item.isLocal() {
			found.Missing = append(found.Missing, item)
		}
	}
	return found, err
}

func (r *packageRequest) build() (*built, error) {
	j, err := r.start()
	if err != nil {
		return nil, err
	}
	defer j.tree.Close()
	meta := j.chart.Metadata
	done := &built{
		Name: meta.Name, Version: meta.Version, OriginalVersion: meta.Version, ValuesFiles: []string{},
	}
	if !j.isDirectory && len(r.ValuesFiles) == 0 && r.Metadata == "" {
		return done, j.copy(r.Out)
	}
	if err := j.setVersion(r.Metadata, done); err != nil {
		return nil, err
	}
	if err := j.mergeValues(r, done); err != nil {
		return nil, err
	}
	if j.isDirectory {
		if done.Dependencies, err = j.addDependencies(r.Fetched); err != nil {
			return nil, err
		}
	}
	done.Packaged = true
	if err := j.files.write(meta.Name, r.Out, j.Limits.ChartBytes); err != nil {
		return nil, failed(noPackage, "the chart '%s' cannot be packaged: %w", meta.Name, err)
	}
	return done, nil
}

// copy writes a package that nothing is to be done to, byte for byte.
func (j *job) copy(out string) error {
	from, err := j.tree.Open(j.path)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.Create(filepath.Clean(out))
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// setVersion gives the chart's version build metadata, and writes Chart.yaml as Helm does.
func (j *job) setVersion(metadata string, done *built) error {
	if metadata == "" {
		return nil
	}
	meta := *j.chart.Metadata
	number, err := semver.NewVersion(meta.Version)
	if err == nil {
		var marked semver.Version
		marked, err = number.SetMetadata(metadata)
		meta.Version = marked.String()
	}
	if err != nil {
		return failed(noVersion, "the version of the chart '%s': %w", meta.Name, err)
	}
	if meta.APIVersion == chart.APIVersionV1 {
		meta.Dependencies = nil // they are in requirements.yaml
	}
	done.Version = meta.Version
	j.files[chartFile], err = yaml.Marshal(&meta)
	return err
}

// failed returns a failure that the caller knows by its code.
func failed(code, format string, args ...any) *call.Failure {
	message := fmt.Errorf(format, args...).Error()
	if len(message) > mostMessage {
		message = message[:mostMessage] + " ..."
	}
	return &call.Failure{Code: code, Message: message}
}

// mostMessage bounds what a parser may quote of a chart.
const mostMessage = 2000

func isNotDirectory(err error) bool { return errors.Is(err, syscall.ENOTDIR) }
