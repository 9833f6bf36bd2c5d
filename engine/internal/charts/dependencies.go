package charts

import (
	"fmt"
	"net/url"
	"os"
	"path"
	"strings"

	"github.com/Masterminds/semver/v3"
	chart "helm.sh/helm/v4/pkg/chart/v2"
)

// dependency is a chart that another one contains: Version is a range, or the one of a lock.
type dependency struct {
	Name       string `json:"name"`
	Version    string `json:"version"`
	Repository string `json:"repository"`
}

func (d dependency) isLocal() bool { return strings.HasPrefix(d.Repository, "file://") }

// missing returns the dependencies that charts/ does not hold, in their order, in the versions of
// Chart.lock as far as they still fit. What a dependency depends on has to be in it, as in Helm.
func (j *job) missing() ([]dependency, error) {
	present := map[string]int{}
	for _, below := range j.chart.Dependencies() {
		present[below.Name()]++
	}
	var lacking []dependency
	for _, item := range j.chart.Metadata.Dependencies {
		switch {
		case present[item.Name] > 0:
			present[item.Name]--
		case item.Name == "" || item.Name != path.Base(item.Name) || item.Name == "..":
			return nil, failed(noChart, "the chart '%s' has a dependency without a valid name: %s",
				j.chart.Name(), shown(item.Name))
		case item.Repository == "":
			return nil, failed(noDependency, "the chart '%s' depends on '%s', which is not in charts/ "+
				"and names no repository", j.chart.Name(), item.Name)
		default:
			lacking = append(lacking, dependency{item.Name, j.pinned(item), item.Repository})
		}
	}
	return lacking, nil
}

func (j *job) pinned(wanted *chart.Dependency) string {
	if j.chart.Lock == nil {
		return wanted.Version
	}
	for _, locked := range j.chart.Lock.Dependencies {
		if locked != nil && locked.Name == wanted.Name && locked.Repository == wanted.Repository &&
			fits(locked.Version, wanted.Version) {
			return locked.Version
		}
	}
	return wanted.Version
}

// fits tells whether a version lies in a range; no range is any release.
func fits(number, wanted string) bool {
	if number == wanted {
		return true
	}
	if strings.TrimSpace(wanted) == "" {
		wanted = "*"
	}
	within, err := semver.NewConstraint(wanted)
	if err != nil {
		return false
	}
	parsed, err := semver.NewVersion(number)
	return err == nil && within.Check(parsed)
}

// addDependencies adds the missing dependencies to the files of the chart: local ones from the same
// source, the others from the packages that were fetched, in their order.
func (j *job) addDependencies(fetched []string) (int, error) {
	lacking, err := j.missing()
	if err != nil {
		return 0, err
	}
	total := budget{limits: j.Limits, bytes: j.files.size(), files: len(j.files)}
	for _, item := range lacking {
		var found files
		if item.isLocal() {
			found, err = j.local(item)
		} else {
			var file string
			if len(fetched) > 0 {
				file, fetched = fetched[0], fetched[1:]
			}
			found, err = j.fetched(item, file)
		}
		if err != nil {
			return 0, err
		}
		total.bytes += found.size()
		total.files += len(found)
		if total.bytes > total.UnpackedBytes || total.files > total.Files {
			return 0, failed(noDependency, "with its dependencies the chart has more than %d files or "+
				"%d MiB", total.Files, total.UnpackedBytes>>20)
		}
		j.files.place(item.Name, found)
	}
	return len(lacking), nil
}

func (j *job) fetched(item dependency, file string) (files, error) {
	opened, err := os.Open(file)
	if err != nil {
		return nil, failed(noDependency, "the dependency '%s' cannot be read: %w", item.Name, err)
	}
	defer opened.Close()
	b := &budget{limits: j.Limits}
	found, err := readPackage(opened, b)
	if err != nil {
		return nil, failed(noDependency, "the dependency '%s' cannot be read: %w", item.Name, err)
	}
	return found, item.check(found, b)
}

// local returns the files of a dependency on file://, which is never outside of the source.
func (j *job) local(item dependency) (files, error) {
	place := fmt.Sprintf("the dependency '%s' ('%s')", item.Name, item.Repository)
	parsed, err := url.Parse(item.Repository)
	if err != nil {
		return nil, failed(noDependency, "%s is not a URL", place)
	}
	joined := j.path + "/" + parsed.Host + "/" + strings.TrimLeft(parsed.Path, "/")
	name, info, err := j.tree.find(joined)
	switch {
	case err != nil:
		return nil, failed(noDependency, "%s %w", place, err)
	case info == nil:
		return nil, failed(noDependency, "%s is not in the source", place)
	case name == "." || name == j.path || strings.HasPrefix(j.path, name+"/"):
		return nil, failed(noDependency, "%s is the chart itself, or contains it", place)
	}
	b := &budget{limits: j.Limits}
	found, err := j.tree.read(name, info, b)
	if err != nil {
		return nil, failed(noDependency, "%s cannot be read: %w", place, err)
	}
	return found, item.check(found, b)
}

// check has Helm read a dependency, and refuses one that is another chart or in another version.
func (d dependency) check(found files, b *budget) error {
	loaded, err := found.load(b)
	switch {
	case err != nil:
		return failed(noDependency, "the dependency '%s' is not a chart: %w", d.Name, err)
	case loaded.Name() != d.Name:
		return failed(noDependency, "instead of the dependency '%s' there is a chart '%s'",
			d.Name, loaded.Name())
	case !fits(loaded.Metadata.Version, d.Version):
		return failed(noDependency, "the dependency '%s' is there in version '%s', which is not in '%s'",
			d.Name, loaded.Metadata.Version, d.Version)
	}
	return nil
}

// place adds a dependency in a directory of its own, for there may be two of one name.
func (f files) place(name string, found files) {
	where := "charts/" + name + "/"
	for number := 2; f.holds(where); number++ {
		where = fmt.Sprintf("charts/%s-%d/", name, number)
	}
	for below, data := range found {
		f[where+below] = data
	}
}

func (f files) holds(directory string) bool {
	for name := range f {
		if strings.HasPrefix(name, directory) {
			return true
		}
	}
	return false
}
